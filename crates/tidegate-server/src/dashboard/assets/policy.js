// The view of one policy: its settings, its denials and the keys that it denies. data-figure="per_second|denied_share|denials"; rows of #hardest
// and #nearest: data-label="LABEL" with data-figure="denials|used" inside, data-remaining on #nearest rows; #compare-with, data-figure="share_here|share_there".

import { h, set, setText, rows, bar, button, figure, hiddenCaption, keyElement, offer, panel, setFigure, table } from "./dom.js";
import { chart } from "./chart.js";
import { addUp, total } from "./dashboard.js";
import { OUTCOMES, beyondLimit, briefRate, count, decisionsOf, plural, rate, share, span, visible, wait } from "./format.js";

const DENIALS = OUTCOMES.filter(({ id }) => id !== "allowed");

function failureText(failure) {
  const text = { open: "requests are allowed", closed: "requests are denied" }[failure];
  return text ?? `this node decides with its share of the limit (${visible(typeof failure === "string" ? failure : JSON.stringify(failure))})`;
}

export function policyView(context, name) {
  const { dashboard, session, showKey } = context;
  const description = h("p", { class: "summary", id: "policy-description" });
  const facts = h("dl", { class: "facts" });
  const tag = h("span", { class: "tag", hidden: true }, "shadow");
  const problem = h("p", { class: "note", hidden: true });
  const figures = {
    per_second: figure("per_second", "decisions a second"),
    denied_share: figure("denied_share", "denied"),
    denials: figure("denials", "denials"),
  };
  const denials = chart({ name: "denials", title: "Denials", unit: "a second", kind: "stack", series: DENIALS, format: rate, axis: briefRate, height: 160, whole: true });
  const hardest = h("tbody", { id: "hardest" });
  const nearest = h("tbody", { id: "nearest" });
  const counted = h("p", { class: "soft small", id: "counted" });
  const hidden = h("p", { class: "note", hidden: true });
  const HIDDEN = {
    hidden: session.login === "out" ? "Keys are hidden: log in to see keys." : "Keys are hidden: this login does not permit viewing them.",
    hashed: "The settings of this policy hide its keys: only their hashes are shown.",
  };
  const comparison = compareWith(dashboard, name);

  const element = h("div", { class: "view" },
    h("p", { class: "crumb" }, h("a", { href: "#/" }, "Overview"), " / policy"),
    h("h1", { tabindex: -1 }, h("bdi", {}, visible(name)), " ", tag),
    description, problem,
    h("section", { "aria-label": "Figures of the last ten seconds" }, h("dl", { class: "tiles few" }, Object.values(figures))),
    h("div", { class: "pair third" },
      panel("Settings", facts),
      h("section", { class: "panel", "aria-label": "Denials over time" }, denials.element)),
    comparison.element,
    hidden,
    h("div", { class: "pair" },
      panel("Most denied", counted, table({ class: "hits counts" }, hiddenCaption("The keys with the most denials"), ["key", ["denials", "n"]], hardest)),
      panel("Nearest the limit",
        h("p", { class: "soft small" }, "Keys that used at least 80 % of a limit in the last 5 to 10 minutes. The key with the highest use now is first."),
        table({ class: "hits" }, hiddenCaption("The keys with the fewest remaining units"), ["key", "used", ["retry in", "n"]], nearest),
        h("p", { class: "none soft" }, "There are none now."))));

  // Two keys may have the same label, and hidden keys all have an empty label.
  const idOf = ({ key, label }, index) => (label === "" ? `index ${index}` : JSON.stringify([key, label]));

  const keyRow = (...cells) => ({ key, label }, index) => {
    const shown = label === "" ? h("span", { class: "soft" }, `key ${index + 1}`) : keyElement(label);
    const link = () => button(keyElement(label), () => showKey(name, key), { class: "link", title: "inspect this key" });
    return h("tr", { "data-label": visible(label) }, h("th", { scope: "row" }, key !== null && session.may_change ? link() : shown), cells.map((cell) => cell()));
  };

  function drawHits(hits) {
    const { error_at_most: error, sampled } = hits;
    hidden.hidden = !HIDDEN[hits.keys] || hits.hardest.length + hits.nearest.length === 0;
    setText(hidden, HIDDEN[hits.keys] ?? "");
    setFigure(figures.denials, count(hits.denials), hits.denials, `in the last ${span(hits.now_ms - hits.since_ms)}`);
    setText(counted, hits.hardest.length === 0 ? "No key was denied in the last 5 to 10 minutes."
      : `Denials in the last 5 to 10 minutes. ${sampled ? "There are many, so some counts are estimates. " : ""}`
        + `${error > 0 ? `A count is at most ${count(error)} too high.` : sampled ? "" : "The counts are exact."}`);
    const maximum = Math.max(1, ...hits.hardest.map((hit) => hit.denials));
    rows(hardest, hits.hardest, idOf, keyRow(() => h("td", {}, bar("denials"))), (row, { denials, error }) => {
      row.children[1].firstChild.show(denials / maximum, denials, count(denials), "denied", "", error ? `between ${count(denials - error)} and ${count(denials)}` : "exact");
    });
    rows(nearest, hits.nearest, (hit, i) => `${idOf(hit, i)} ${hit.limit}`, keyRow(() => h("td", {}, bar("used")), () => h("td", { class: "n" })), (row, hit) => {
      const part = hit.capacity === 0 ? 1 : hit.used / hit.capacity;
      const tone = part >= 1 ? "denied" : part >= 0.8 ? "shadow" : "calm";
      row.children[1].firstChild.show(part, hit.used, `${count(hit.used)} of ${count(hit.capacity)}`, tone, part >= 1 ? "full" : "");
      set(row, { "data-remaining": hit.remaining, title: `under ${visible(hit.limit)}` });
      setText(row.children[2], hit.remaining > 0 ? "now" : hit.retry_after_ms === null ? "–" : wait(hit.retry_after_ms));
    });
  }

  function drawFacts(policy) {
    const costs = Object.entries(policy?.operations ?? {}).map(([operation, cost]) => `${visible(operation)} ${count(typeof cost === "object" ? cost.cost : cost)}`);
    const lines = policy ? [
      ["limits", policy.limits.map(visible).join(" and ")],
      ["algorithm", visible(policy.algorithm)],
      ["mode", policy.mode === "shadow" ? "shadow: counts requests beyond the limit and denies none" : "enforce: requests beyond the limit are denied"],
      ["key", visible(policy.key ?? "set by the caller")],
      ["if the store fails", failureText(policy.on_store_failure)],
      costs.length > 0 && ["costs", costs.join(", ")],
      policy.hide_keys && ["keys", "are shown as hashes only"],
    ].filter(Boolean) : [];
    setText(description, policy ? visible(policy.words) : dashboard.catalogue.size ? "This policy does not exist." : "");
    rows(facts, lines, ([term]) => term, ([term]) => h("div", {}, h("dt", {}, term), h("dd")), (row, [, text]) => setText(row.lastChild, text));
    tag.hidden = policy?.mode !== "shadow";
  }

  return {
    element,
    title: name,
    policy: name,
    update() {
      const { overview, catalogue } = dashboard;
      const policy = catalogue.get(name);
      drawFacts(policy);
      if (!overview) return;
      const isShadow = policy?.mode === "shadow";
      const { seconds } = overview.last;
      const { all, denied, share: part } = decisionsOf(overview.policies.find((one) => one.name === name) ?? {}, isShadow);
      setFigure(figures.per_second, rate(all / seconds), all / seconds, `${count(all)} in ${seconds} s`);
      setFigure(figures.denied_share, share(part), part, `${count(denied)} in ${seconds} s`, denied > 0 ? (isShadow ? "warn" : "bad") : null);
      setText(figures.denied_share.firstChild, isShadow ? "would be denied" : "denied");
      setText(figures.denials.firstChild, isShadow ? "would-be denials" : "denials");
      const { values: { allowed, ...values }, ...history } = dashboard.history(name);
      if (Object.keys(values).length === 0) values[beyondLimit(isShadow)[0]] = allowed.map(() => 0);
      denials.draw({ ...history, values,
        summary: `Denials a second by ${visible(name)}: ${count(total(Object.values(values).flat()))} in the last 5 minutes${isShadow ? ", all allowed: it is a shadow policy" : ""}.` });
      comparison.update(isShadow);
    },
    onEvent(event, data) {
      problem.hidden = event !== "problem";
      if (event === "problem") setText(problem, `▲ ${visible(data.error)}`);
      if (event === "hits") drawHits(data);
    },
  };
}

/** Compares the would-be denials of a shadow policy with the denials of an active policy. */
function compareWith(dashboard, name) {
  const choice = h("select", { id: "compare-with", change: () => update(true) });
  const both = chart({
    name: "compare", title: "Both policies", unit: "denials a second", kind: "lines", format: rate, axis: briefRate, height: 160, whole: true,
    series: [{ id: "here", name: "this policy would deny" }, { id: "there", name: "the other policy denies" }],
  });
  const here = figure("share_here", "this policy would deny");
  const there = figure("share_there", "the other policy denies");
  const summary = h("p", { class: "summary", id: "comparison-summary" });
  const element = panel("Comparison with an active policy",
    h("div", { class: "choice" }, h("label", { for: "compare-with" }, "compare with"), choice), summary,
    h("dl", { class: "tiles few" }, here, there), both.element);
  element.classList.add("spaced");
  element.hidden = true;

  function update(isShadow) {
    const { overview } = dashboard;
    element.hidden = !isShadow || !overview;
    if (element.hidden) return;
    const names = overview.policies.filter(({ mode }) => mode === "enforce").map((policy) => policy.name);
    const likely = names.filter((other) => name.startsWith(other)).sort((a, b) => b.length - a.length)[0];
    offer(choice, names, likely ?? names[0]);
    element.hidden = choice.value === "";
    const compare = (tile, policy, isShadow, tone) => {
      const { values } = dashboard.history(policy);
      const denied = addUp(values, beyondLimit(isShadow));
      const part = total(denied) / Math.max(1, total(Object.values(values).flat()));
      setFigure(tile, share(part), part, plural(total(denied), "request"), part > 0 ? tone : null);
      return [denied, share(part)];
    };
    const [would, shareHere] = compare(here, name, true, "warn");
    const [did, shareThere] = compare(there, choice.value, false, "bad");
    const text = `In the last 5 minutes, ${visible(name)} would have denied ${shareHere} of its requests; ${visible(choice.value)} denied ${shareThere}.`;
    setText(summary, text);
    both.draw({ ...dashboard.history(), values: { here: would, there: did }, summary: text });
  }

  return { element, update };
}
