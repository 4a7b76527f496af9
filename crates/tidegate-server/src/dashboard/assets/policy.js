// The view of one policy: its settings, its denials and the keys that it denies. data-figure="per_second|denied_share|denials"; rows of #hardest
// and #nearest: data-label="LABEL" with data-figure="denials|used" inside, data-remaining on #nearest rows.

import { keyAddress, subjectOf, subjectQuery } from "./api.js";
import { comparison } from "./comparison.js";
import { h, set, setText, rows, bar, figure, hiddenCaption, keyElement, panel, setFigure, table } from "./dom.js";
import { chart } from "./chart.js";
import { total } from "./dashboard.js";
import { OUTCOMES, beyondLimit, briefRate, causeText, count, decisionsOf, isNearLimit, rate, share, span, visible, wait } from "./format.js";

const MAX_LINKS = 20;

const DENIALS = OUTCOMES.filter(({ id }) => id !== "allowed");

function failureText(failure) {
  const text = { open: "requests are allowed", closed: "requests are denied" }[failure];
  return text ?? `this node decides with its share of the limit (${visible(typeof failure === "string" ? failure : JSON.stringify(failure))})`;
}

export function policyView(context, name) {
  const { dashboard, session } = context;
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
  const why = h("span", {}, "denied by");
  const hidden = h("p", { class: "note", hidden: true });
  const HIDDEN = {
    hidden: session.login === "out" ? "Keys are hidden: log in to see them." : "Keys are hidden: use the admin token to see them.",
    hashed: "This policy hides its keys (hide_keys): the page shows only their hashes.",
  };
  const compared = comparison(dashboard, name);
  // Nothing is known about the keys before the first event.
  const none = (text) => h("p", { class: "none soft", hidden: true }, text, "To look at any key, ", h("a", { href: `#/key${subjectQuery({ policy: name })}` }, "inspect it"), ".");
  const emptyLists = [none(""), none("There is no such key. ")];

  let isMissing = false;
  const element = h("div", { class: "view" },
    h("p", { class: "crumb" }, h("a", { href: "#/" }, "Overview"), " / policy"),
    h("h1", { tabindex: -1 }, h("bdi", {}, visible(name)), " ", tag),
    description, problem,
    h("section", { "aria-label": "Figures of the last ten seconds" }, h("dl", { class: "tiles few" }, Object.values(figures))),
    h("div", { class: "pair third" },
      panel("Configuration", facts),
      h("section", { class: "panel", "aria-label": "Denials over time" }, denials.element)),
    compared.element,
    hidden,
    h("div", { class: "pair" },
      panel("Most denied", counted, table({ class: "hits counts" }, hiddenCaption("The keys with the most denials"), ["key", why, ["denials", "n"]], hardest), emptyLists[0]),
      panel("Nearest the limit",
        h("p", { class: "soft small" }, "Keys that use at least four fifths of a limit, of those that were denied or came near their limit in the last 5 to 10 minutes. The key with the highest use is first."),
        table({ class: "hits" }, hiddenCaption("The keys with the largest share of a limit in use"), ["key", "used", ["retry in", "n"]], nearest),
        emptyLists[1])));

  // Two keys may have the same label, and hidden keys all have an empty label.
  const idOf = ({ key, label }, index) => (label === "" ? `index ${index}` : JSON.stringify([key, label]));

  const keyRow = (...cells) => ({ key, label }, index) => {
    const shown = label === "" ? h("span", { class: "soft" }, `key ${index + 1}`) : keyElement(label);
    const subject = session.may_change ? subjectOf(name, { key, label }) : null;
    const link = () => h("a", { class: "key-link", href: keyAddress(subject), title: "Inspect this key" }, shown);
    return h("tr", { "data-label": visible(label) }, h("th", { scope: "row" }, subject ? link() : shown), cells.map((cell) => cell()));
  };

  function drawHits(hits) {
    const { error_at_most: error, sampled } = hits;
    const isShadow = dashboard.catalogue.get(name)?.mode === "shadow";
    hidden.hidden = !HIDDEN[hits.keys] || hits.hardest.length + hits.nearest.length === 0;
    setText(hidden, HIDDEN[hits.keys] ?? "");
    for (const text of emptyLists) text.hidden = false;
    setText(why, isShadow ? "would be denied by" : "denied by");
    setFigure(figures.denials, count(hits.denials), hits.denials, `in the last ${span(hits.now_ms - hits.since_ms)}`);
    setText(counted, hits.hardest.length === 0 ? `No key ${isShadow ? "would have been" : "was"} denied in the last 5 to 10 minutes.`
      : `${isShadow ? "Would-be denials" : "Denials"} in the last 5 to 10 minutes. ${sampled ? "There are many, so some counts are estimates. " : ""}`
        + `${error > 0 ? `A count is at most ${count(error)} too high.` : sampled ? "" : "The counts are exact."}`);
    const maximum = Math.max(1, ...hits.hardest.map((hit) => hit.denials));
    rows(hardest, hits.hardest, idOf, keyRow(() => h("td", { class: "why" }), () => h("td", {}, bar("denials"))), (row, { denials, error, ...cause }) => {
      setText(row.children[1], causeText(cause));
      row.children[2].firstChild.show(denials / maximum, denials, count(denials), isShadow ? "shadow" : "denied", "", error ? `between ${count(denials - error)} and ${count(denials)}` : "exact");
    });
    rows(nearest, hits.nearest, (hit, i) => `${idOf(hit, i)} ${hit.limit}`, keyRow(() => h("td", {}, bar("used")), () => h("td", { class: "n" })), (row, hit) => {
      const part = hit.capacity === 0 ? 1 : hit.used / hit.capacity;
      const tone = isShadow ? "shadow" : part >= 1 ? "denied" : isNearLimit(hit.used, hit.capacity) ? "near" : "calm";
      row.children[1].firstChild.show(part, hit.used, `${count(hit.used)} of ${count(hit.capacity)}`, tone, part >= 1 ? "full" : "");
      set(row, { "data-remaining": hit.remaining, title: `under ${visible(hit.limit)}` });
      setText(row.children[2], hit.remaining > 0 ? "0 s" : hit.retry_after_ms === null ? "–" : wait(hit.retry_after_ms));
    });
  }

  /** Shows that the service has no such policy. The service itself is up. */
  function showMissing() {
    if (isMissing) return;
    isMissing = true;
    const others = [...dashboard.catalogue.keys()].slice(0, MAX_LINKS).map((other) => h("li", {}, h("a", { href: `#/policy/${encodeURIComponent(other)}` }, visible(other))));
    element.replaceChildren(
      h("h1", { tabindex: -1 }, "No such policy"),
      h("p", { class: "summary", id: "no-policy" }, "The configuration has no policy ", h("bdi", { class: "key whole" }, visible(name)), "."),
      others.length > 0 && h("div", { class: "panel" }, h("h2", {}, "Policies"), h("ul", { class: "links" }, others)) || "",
      h("p", {}, h("a", { href: "#/" }, "Go to the overview")));
    document.title = "No such policy – Tidegate";
  }

  function drawFacts(policy) {
    const costs = Object.entries(policy?.operations ?? {}).map(([operation, cost]) => `${visible(operation)} ${count(typeof cost === "object" ? cost.cost : cost)}`);
    const lines = policy ? [
      ["limits", policy.limits.map(visible).join(" and ")],
      ["algorithm", visible(policy.algorithm)],
      ["mode", policy.mode === "shadow" ? "shadow: requests beyond the limit are counted and allowed" : "enforce: requests beyond the limit are denied"],
      policy.candidate_for && ["candidate for", visible(policy.candidate_for)],
      ["key", visible(policy.key ?? "set by the caller")],
      ["if the store fails", failureText(policy.on_store_failure)],
      costs.length > 0 && ["costs", costs.join(", ")],
      policy.hide_keys && ["keys", "are shown as hashes only"],
    ].filter(Boolean) : [];
    setText(description, policy ? visible(policy.words) : "");
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
      // The policy may be removed or added while the page is open.
      if (isMissing && policy) return context.reload();
      if (isMissing || (catalogue.size > 0 && !policy)) return showMissing();
      drawFacts(policy);
      if (!overview) return;
      const isShadow = policy?.mode === "shadow";
      const { seconds } = overview.last;
      const { all, denied, share: part } = decisionsOf(overview.policies.find((one) => one.name === name) ?? {}, isShadow);
      setFigure(figures.per_second, rate(all / seconds), all / seconds, `${count(all)} in ${seconds} s`);
      setFigure(figures.denied_share, share(part), part, `${count(denied)} in ${seconds} s`, denied > 0 && !isShadow ? "bad" : null);
      setText(figures.denied_share.firstChild, isShadow ? "would be denied" : "denied");
      setText(figures.denials.firstChild, isShadow ? "would-be denials" : "denials");
      denials.setTitle(isShadow ? "Would be denied" : "Denials");
      const { values: { allowed, ...values }, ...history } = dashboard.history(name);
      if (Object.keys(values).length === 0) values[beyondLimit(isShadow)[0]] = allowed.map(() => 0);
      denials.draw({ ...history, values,
        summary: `${isShadow ? "Requests that would be denied" : "Denials"} a second by ${visible(name)}: ${count(total(Object.values(values).flat()))} in the last 5 minutes${isShadow ? ", all allowed: it is a shadow policy" : ""}.` });
      compared.update(policy);
    },
    refused({ status, error }) {
      if (status === 404) return showMissing();
      problem.hidden = false;
      setText(problem, `▲ ${visible(error ?? `The service answered ${status}.`)}`);
    },
    onEvent(event, data) {
      if (event === "problem" && data.field === "policy") return showMissing();
      problem.hidden = event !== "problem";
      if (event === "problem") setText(problem, `▲ ${visible(data.error)}`);
      if (event === "hits") drawHits(data);
    },
  };
}
