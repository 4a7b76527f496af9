// Compares a shadow policy with the policy that it is a candidate for. #compare-with, #comparison-summary,
// data-figure="share_here|share_there". The page of the other policy links to its candidates: #candidates.

import { addUp, total } from "./dashboard.js";
import { chart } from "./chart.js";
import { h, setText, rows, figure, offer, panel, setFigure } from "./dom.js";
import { beyondLimit, briefRate, plural, rate, share, visible } from "./format.js";

const NOT_SELECTED = "Select the policy to compare with, or set candidate_for in the configuration. Then the page selects that policy.";

export function comparison(dashboard, name) {
  const choice = h("select", { id: "compare-with", change: () => update(dashboard.catalogue.get(name)) });
  const both = chart({
    name: "compare", title: "Both policies", unit: "requests a second", kind: "lines", format: rate, axis: briefRate, height: 160, whole: true,
    series: [{ id: "here", name: "would be denied by this policy" }, { id: "there", name: "denied by the other policy" }],
  });
  const here = figure("share_here", "would be denied by this policy");
  const there = figure("share_there", "denied by the other policy");
  const summary = h("p", { class: "summary", id: "comparison-summary" });
  const results = h("div", { class: "contents" }, h("dl", { class: "tiles few" }, here, there), both.element);
  const compared = panel("Candidate and active policy",
    h("div", { class: "choice" }, h("label", { for: "compare-with" }, "compare with"), choice), summary, results);
  compared.classList.add("spaced");
  const candidates = h("div", { class: "notes", id: "candidates" });
  const element = h("div", { class: "contents" }, candidates, compared);
  compared.hidden = true;

  /** Returns the requests beyond the limit of a policy in each of the last seconds, and their share. */
  function beyond(policy) {
    const { values } = dashboard.history(policy);
    const denied = addUp(values, beyondLimit(dashboard.catalogue.get(policy)?.mode === "shadow"));
    return { denied, all: total(denied), part: total(denied) / Math.max(1, total(Object.values(values).flat())) };
  }

  function drawCandidates() {
    const found = [...dashboard.catalogue.values()].filter((other) => other.candidate_for === name);
    rows(candidates, found, (other) => other.name, (other) => h("p", { class: "note calm" },
      "Candidate: ", h("a", { href: `#/policy/${encodeURIComponent(other.name)}` }, visible(other.name)), h("span")),
    (row, other) => setText(row.lastChild, ` (${other.limits.map(visible).join(" and ")}) would have denied ${share(beyond(other.name).part)} of its requests in the last 5 minutes; this policy denied ${share(beyond(name).part)}.`));
  }

  function update(policy) {
    const { overview, catalogue } = dashboard;
    if (!overview || !policy) return;
    drawCandidates();
    compared.hidden = policy.mode !== "shadow";
    if (compared.hidden) return;
    const names = [...catalogue.values()].filter((other) => other.mode === "enforce" || other.name === policy.candidate_for).map((other) => other.name);
    const related = (other) => other === policy.candidate_for || (!names.includes(policy.candidate_for) && name.startsWith(other));
    const likely = names.filter(related).sort((a, b) => b.length - a.length)[0];
    compared.hidden = names.length === 0;
    // An unrelated policy is not selected: its figures would look like a result.
    const offered = likely === undefined ? ["", ...names] : names;
    offer(choice, offered, likely ?? "", (other) => (other === "" ? "no policy selected" : other === policy.candidate_for ? `${other} (this policy is its candidate)` : other));
    results.hidden = choice.value === "";
    if (results.hidden) return setText(summary, NOT_SELECTED);
    const [would, did] = [beyond(name), beyond(choice.value)];
    setFigure(here, share(would.part), would.part, plural(would.all, "request"));
    setFigure(there, share(did.part), did.part, plural(did.all, "request"), did.part > 0 ? "bad" : null);
    const text = `In the last 5 minutes, ${visible(name)} would have denied ${share(would.part)} of its requests; ${visible(choice.value)} denied ${share(did.part)}.`;
    setText(summary, text);
    both.draw({ ...dashboard.history(), values: { here: would.denied, there: did.denied }, summary: text });
  }

  return { element, update };
}
