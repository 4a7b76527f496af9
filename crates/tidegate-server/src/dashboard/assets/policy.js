// The view of one policy: its settings, its denials and the keys that it denies. data-figure="per_second|denied_share|denials"; rows of #hardest
// and #nearest: data-label="LABEL" with data-figure="denials|used" inside, data-remaining on #nearest rows; #compare-with, data-figure="share_here|share_there".

import { h, setText, attribute, rows, keyElement, option } from "./dom.js";
import { chart } from "./chart.js";
import { series } from "./dashboard.js";
import { figure, setFigure, bar } from "./widgets.js";
import { DENIED, OUTCOMES, count, rate, briefRate, share, visible, plural, sumOf, deniedOf, span, wait } from "./format.js";

const DENIALS = OUTCOMES.filter(({ id }) => id !== "allowed");
const FAILURE = { open: "requests are allowed", closed: "requests are denied" };

function failureText(failure) {
  if (typeof failure === "string" && FAILURE[failure]) return FAILURE[failure];
  return `this node counts its share of the limit (${visible(typeof failure === "string" ? failure : JSON.stringify(failure))})`;
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
    denials: figure("denials", "denials counted"),
  };
  const denials = chart({ name: "denials", title: "Denials", unit: "a second", kind: "stack", series: DENIALS, format: rate, axis: briefRate, height: 160, whole: true });
  const hardest = h("tbody", { id: "hardest" });
  const nearest = h("tbody", { id: "nearest" });
  const counted = h("p", { class: "soft small", id: "counted" });
  const hidden = h("p", { class: "note", hidden: true });
  const HIDDEN = {
    hidden: session.login === "out" ? "Keys are hidden: log in to see keys." : "Keys are hidden: this login does not permit viewing them.",
    hashed: "The keys of this policy are shown as hashes only, because of its settings.",
  };
  const comparison = compareWith(dashboard, name);

  const element = h("div", { class: "view" },
    h("p", { class: "crumb" }, h("a", { href: "#/" }, "Overview"), " / policy"),
    h("h1", { tabindex: -1 }, h("bdi", {}, visible(name)), " ", tag),
    description, problem,
    h("section", { "aria-label": "The last ten seconds" }, h("dl", { class: "tiles few" }, Object.values(figures))),
    h("div", { class: "pair third" },
      h("section", { class: "panel", "aria-labelledby": "settings-h" }, h("h2", { id: "settings-h" }, "Settings"), facts),
      h("section", { class: "panel", "aria-label": "Denials over time" }, denials.element)),
    comparison.element,
    hidden,
    h("div", { class: "pair" },
      h("section", { class: "panel", "aria-labelledby": "hard-h" }, h("h2", { id: "hard-h" }, "Hit hardest"), counted,
        h("table", { class: "hits counts" }, h("caption", { class: "unseen" }, "The keys denied most often"),
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "key"), h("th", { scope: "col", class: "n" }, "denials"))), hardest)),
      h("section", { class: "panel", "aria-labelledby": "near-h" }, h("h2", { id: "near-h" }, "Nearest the limit"),
        h("p", { class: "soft small" }, "Keys that recently used at least four fifths of a limit, sorted by their current use."),
        h("table", { class: "hits" }, h("caption", { class: "unseen" }, "The keys with the least left"),
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "key"), h("th", { scope: "col" }, "used"), h("th", { scope: "col", class: "n" }, "free in"))), nearest), h("p", { class: "none soft" }, "None at the moment."))));

  const keyCell = ({ key, label }, place) => h("th", { scope: "row" },
    key !== null && session.may_change
      ? h("button", { type: "button", class: "link", title: "inspect this key", click: () => showKey(name, key) }, keyElement(label))
      : label === "" ? h("span", { class: "soft" }, place) : keyElement(label));

  // Two keys may have the same label, and hidden keys all have an empty label.
  const idOf = ({ key, label }, index) => (label === "" ? `index ${index}` : JSON.stringify([key, label]));

  function drawHits(hits) {
    hidden.hidden = !HIDDEN[hits.keys] || hits.hardest.length + hits.nearest.length === 0;
    setText(hidden, HIDDEN[hits.keys] ?? "");
    setFigure(figures.denials, count(hits.denials), hits.denials, `in the last ${span(hits.now_ms - hits.since_ms)}`);
    setText(counted, hits.hardest.length === 0 ? "No key was denied in the last 5 to 10 minutes."
      : `Counts are ${hits.error_at_most > 0 ? `at most ${count(hits.error_at_most)} too high` : hits.sampled ? "close" : "exact"}, of the last 5 to 10 minutes.${hits.sampled ? " Some denials are estimated, because there are many." : ""}`);
    const maximum = Math.max(1, ...hits.hardest.map((hit) => hit.denials));
    rows(hardest, hits.hardest, idOf,
      (hit) => h("tr", { "data-label": visible(hit.label) }, keyCell(hit, `key ${hits.hardest.indexOf(hit) + 1}`), h("td", {}, bar())),
      (row, hit) => {
        row.lastChild.firstChild.show(hit.denials / maximum, count(hit.denials), "denied");
        const number = row.querySelector("b");
        attribute(number, "data-figure", "denials");
        attribute(number, "data-value", hit.denials);
        attribute(number, "title", hit.error ? `between ${count(hit.denials - hit.error)} and ${count(hit.denials)}` : "exact");
      });
    rows(nearest, hits.nearest, (hit, i) => `${idOf(hit, i)} ${hit.limit}`,
      (hit) => h("tr", { "data-label": visible(hit.label) }, keyCell(hit, `key ${hits.nearest.indexOf(hit) + 1}`), h("td", {}, bar()), h("td", { class: "n" })),
      (row, hit) => {
        const part = hit.capacity === 0 ? 1 : hit.used / hit.capacity;
        const meter = row.children[1].firstChild;
        meter.show(part, `${count(hit.used)} of ${count(hit.capacity)}`, part >= 1 ? "denied" : part >= 0.8 ? "shadow" : "calm", part >= 1 ? "full" : "");
        const number = meter.querySelector("b");
        attribute(number, "data-figure", "used");
        attribute(number, "data-value", hit.used);
        attribute(row, "data-remaining", hit.remaining);
        attribute(row, "title", `under ${visible(hit.limit)}`);
        setText(row.children[2], hit.remaining > 0 ? "now" : hit.retry_after_ms === null ? "–" : wait(hit.retry_after_ms));
      });
  }

  function drawFacts(policy) {
    const lines = policy ? [
      ["limits", policy.limits.map(visible).join(" and ")],
      ["counted by", visible(policy.algorithm)],
      ["mode", policy.mode === "shadow" ? "shadow: counts would-be denials, denies nothing" : "enforce: requests beyond the limit are denied"],
      ["key", visible(policy.key ?? "set by the caller")],
      ["without the store", failureText(policy.on_store_failure)],
      ...Object.keys(policy.operations ?? {}).length ? [["prices", Object.entries(policy.operations)
        .map(([operation, cost]) => `${visible(operation)} ${count(typeof cost === "object" ? cost.cost : cost)}`).join(", ")]] : [],
      ...policy.hide_keys ? [["keys", "are shown as hashes only"]] : [],
    ] : [];
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
      const shadow = policy?.mode === "shadow";
      const now = overview.policies.find((one) => one.name === name) ?? {};
      const total = sumOf(now);
      const denied = shadow ? now.shadow ?? 0 : deniedOf(now);
      setFigure(figures.per_second, rate(total / overview.last.seconds), total / overview.last.seconds, `${count(total)} in ${overview.last.seconds} s`);
      setFigure(figures.denied_share, share(total ? denied / total : 0), total ? denied / total : 0, `${count(denied)} in ${overview.last.seconds} s`, denied > 0 ? (shadow ? "warn" : "bad") : null);
      setText(figures.denied_share.firstChild, shadow ? "would be denied" : "denied");
      setText(figures.denials.firstChild, shadow ? "would-be denials counted" : "denials counted");
      const { allowed: _, ...values } = series(overview.history, name);
      if (Object.keys(values).length === 0) values[shadow ? "shadow" : "limited"] = overview.history.p50_us.map(() => 0);
      const sum = Object.values(values).flat().reduce((a, b) => a + b, 0);
      denials.draw({ from_ms: overview.history.from_ms, step_ms: overview.history.step_ms, values,
        summary: `Denials a second by ${visible(name)}: ${count(sum)} in the last ${span(overview.history.p50_us.length * 1000)}${shadow ? ", all allowed: it is a shadow policy" : ""}.` });
      comparison.update(shadow);
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
    name: "compare", title: "Side by side", unit: "denials a second", kind: "lines", format: rate, axis: briefRate, height: 160, whole: true,
    series: [{ id: "here", name: "this would deny" }, { id: "there", name: "the other denies" }],
  });
  const here = figure("share_here", "this would deny");
  const there = figure("share_there", "the other denies");
  const summary = h("p", { class: "summary", id: "comparison-summary" });
  const element = h("section", { class: "panel spaced", "aria-labelledby": "compare-h", hidden: true },
    h("h2", { id: "compare-h" }, "Compared with the active policy"),
    h("div", { class: "choice" }, h("label", { for: "compare-with" }, "compare with"), choice), summary,
    h("dl", { class: "tiles few" }, here, there), both.element);

  function offer(overview) {
    const names = overview.policies.filter(({ mode }) => mode === "enforce").map((policy) => policy.name);
    if (choice.dataset.names === names.join("\n")) return;
    const likely = names.filter((other) => name.startsWith(other)).sort((a, b) => b.length - a.length)[0];
    const chosen = names.includes(choice.value) ? choice.value : likely ?? names[0];
    choice.dataset.names = names.join("\n");
    choice.replaceChildren(...names.map((other) => option(other)));
    if (chosen !== undefined) choice.value = chosen;
  }

  const add = (lists, length) => Array.from({ length }, (_, i) => lists.reduce((sum, list) => sum + (list?.[i] ?? 0), 0));
  const total = (list) => list.reduce((a, b) => a + b, 0);

  function update(shadow) {
    const { overview } = dashboard;
    element.hidden = !shadow || !overview;
    if (element.hidden) return;
    offer(overview);
    element.hidden = choice.value === "";
    const { history } = overview;
    const length = history.p50_us.length;
    const mine = series(history, name);
    const other = series(history, choice.value);
    const would = add([mine.shadow], length);
    const did = add(DENIED.map((id) => other[id]), length);
    const part = (denied, all) => (all === 0 ? 0 : total(denied) / all);
    const shareHere = part(would, total(Object.values(mine).flat()));
    const shareThere = part(did, total(Object.values(other).flat()));
    const during = span(length * history.step_ms);
    setFigure(here, share(shareHere), shareHere, plural(total(would), "request"), shareHere > 0 ? "warn" : null);
    setFigure(there, share(shareThere), shareThere, plural(total(did), "request"), shareThere > 0 ? "bad" : null);
    const text = `In the last ${during}, ${visible(name)} would have denied ${share(shareHere)} of its requests; ${visible(choice.value)} denied ${share(shareThere)}.`;
    setText(summary, text);
    both.draw({ from_ms: history.from_ms, step_ms: history.step_ms, values: { here: would, there: did }, summary: text });
  }

  return { element, update };
}
