// The overview. data-figure="per_second|denied_share|p50|p99|keys|bytes|store" with data-value; rows data-policy="NAME"
// with data-figure="per_second|denied_share" inside; journal lines data-line="ID" data-kind="KIND".

import { h, setText, attribute, rows, option } from "./dom.js";
import { chart, sparkline } from "./chart.js";
import { series } from "./dashboard.js";
import { figure, setFigure, bar, ago } from "./widgets.js";
import { DENIED, OUTCOMES, JOURNAL, WITHOUT_POLICY, count, rate, briefRate, share, micros, size, visible, plural, sumOf, deniedOf, span } from "./format.js";

const LATENCY = [
  { id: "p99", name: "p99", meaning: "99 of 100 decisions were at least as fast" },
  { id: "p50", name: "p50", meaning: "half of the decisions were at least as fast" },
];

/** The share of denials from which the figure is marked. */
const HIGH_DENIED_SHARE = 0.01;

export function overviewView({ dashboard }) {
  const summary = h("p", { class: "summary", id: "summary" });
  const notes = h("div", { class: "notes" });
  const figures = {
    per_second: figure("per_second", "decisions a second"),
    denied_share: figure("denied_share", "denied"),
    p50: figure("p50", "latency, p50"),
    p99: figure("p99", "latency, p99"),
    keys: figure("keys", "keys"),
    bytes: figure("bytes", "memory"),
    store: figure("store", "store"),
  };
  const which = h("select", { id: "which", change: () => drawDecisions() }, option("", "all policies"));
  const decisions = chart({ name: "decisions", title: "Decisions", unit: "a second, by outcome", kind: "stack", series: OUTCOMES, format: rate, axis: briefRate, whole: true,
    tool: h("span", { class: "choice" }, h("label", { for: "which", class: "unseen" }, "policy drawn"), which) });
  const latency = chart({ name: "latency", title: "Latency", unit: "of a decision", kind: "lines", series: LATENCY, format: micros, height: 190 });
  const policies = h("tbody");
  const journal = h("ol", { class: "journal", id: "journal" });
  const nodes = h("ul", { class: "nodes" });

  const element = h("div", { class: "view" },
    h("h1", { tabindex: -1 }, "Overview"),
    summary,
    notes,
    h("section", { "aria-label": "Figures of the last ten seconds" }, h("dl", { class: "tiles" }, Object.values(figures)), nodes),
    h("section", { class: "charts", "aria-label": "The last minutes" },
      h("div", { class: "panel" }, decisions.element),
      h("div", { class: "panel" }, latency.element)),
    h("section", { class: "panel", "aria-labelledby": "policies-h" },
      h("h2", { id: "policies-h" }, "Policies"),
      h("table", { class: "policies fold" },
        h("caption", { class: "unseen" }, "Each policy over the last ten seconds"),
        h("thead", {}, h("tr", {},
          h("th", { scope: "col" }, "policy"), h("th", { scope: "col" }, "limits"), h("th", { scope: "col", class: "n" }, "a second"),
          h("th", { scope: "col" }, "denied"), h("th", { scope: "col", class: "spark-col" }, "denials, 5 min"))),
        policies),
      h("p", { class: "none soft" }, "There are no policies, and no caller supplies limits.")),
    h("section", { class: "panel", "aria-labelledby": "journal-h" },
      h("h2", { id: "journal-h" }, "Journal"),
      h("p", { class: "soft small" }, "Starts, reloads and failures; resets and overrides by people. Newest first."),
      h("div", { class: "scroll tall", tabindex: 0, role: "group", "aria-label": "journal lines" }, journal)));

  function drawDecisions() {
    const { history, last } = dashboard.overview;
    const name = which.value === "" ? undefined : which.value;
    const values = series(history, name);
    values.allowed ??= Array(history.p50_us.length).fill(0);
    const seconds = history.p50_us.length;
    const total = Object.values(values).flat().reduce((a, b) => a + b, 0);
    const denied = DENIED.flatMap((id) => values[id] ?? []).reduce((a, b) => a + b, 0);
    decisions.draw({
      from_ms: history.from_ms, step_ms: history.step_ms, values,
      summary: `Decisions a second over the last ${span(seconds * 1000)} for ${name ? visible(name) : "all policies"}: `
        + `${count(total)} in all, ${share(total ? denied / total : 0)} denied; ${rate(last.per_second)} a second now over all policies.`,
    });
  }

  function drawLatency() {
    const { history, last } = dashboard.overview;
    latency.draw({
      from_ms: history.from_ms, step_ms: history.step_ms, values: { p99: history.p99_us, p50: history.p50_us },
      summary: `Latency of a decision: half within ${micros(last.p50_us)}, 99 of 100 within ${micros(last.p99_us)} in the last ten seconds.`,
    });
  }

  function summaryText(overview) {
    const denying = overview.policies.filter((p) => deniedOf(p) > 0).sort((a, b) => deniedOf(b) - deniedOf(a));
    const names = denying.slice(0, 3).map((p) => `${WITHOUT_POLICY.get(p.name) ?? visible(p.name)} (${share(deniedOf(p) / sumOf(p))})`);
    const more = denying.length > 3 ? ` and ${denying.length - 3} more` : "";
    const first = overview.last.decisions === 0 ? "There are no requests at the moment."
      : denying.length === 0 ? "Nothing is being denied." : `Denying now: ${names.join(", ")}${more}.`;
    return `${first} ${overview.store.answers ? "The store is healthy." : "The store does not answer."} Up for ${span(overview.now_ms - overview.started_ms)}.`;
  }

  function drawNotes({ configuration_error, store }) {
    const lines = [];
    if (configuration_error) lines.push(["conf", "The configuration file was refused; the previous policies stay active.", configuration_error]);
    if (store.may_evict) lines.push(["evict", "The store may evict counters when its memory is full. Limits can then be exceeded.", null]);
    if (store.no_room) lines.push(["room", `The store was full for ${plural(store.no_room, "new key")} so far.`, null]);
    rows(notes, lines, ([id]) => id, () => h("p", { class: "note" }, h("b", { "aria-hidden": "true" }, "▲ "), h("span"), h("code")),
      (row, [, text, detail]) => {
        setText(row.children[1], text);
        setText(row.children[2], visible(detail ?? ""));
      });
  }

  function drawStore(store) {
    const open = store.nodes.filter((node) => node.breaker === "open").length;
    const half = store.nodes.filter((node) => node.breaker === "half_open").length;
    const state = !store.answers ? ["■ no answer", "bad"] : open ? ["▲ breaker open", "bad"] : half ? ["▲ trying again", "warn"] : ["✓ healthy", "good"];
    const errors = store.errors.reduce((sum, { count }) => sum + count, 0);
    setFigure(figures.store, state[0], store.answers ? "healthy" : "failing", `${visible(store.kind)}${errors ? `, ${plural(errors, "error")}` : ""}`, state[1]);
    const elsewhere = store.kind === "memory" ? "" : "kept by the store";
    setFigure(figures.keys, store.keys === null ? "–" : count(store.keys), store.keys, store.max_keys === null ? elsewhere : `of ${count(store.max_keys)}`,
      store.max_keys && store.keys > 0.9 * store.max_keys ? "warn" : null);
    setFigure(figures.bytes, size(store.bytes), store.bytes, store.max_bytes === null ? elsewhere : `of ${size(store.max_bytes)}`,
      store.max_bytes && store.bytes > 0.9 * store.max_bytes ? "warn" : null);
    const breakerText = { closed: ["✓", "breaker closed: in use"], half_open: ["▲", "breaker half open: probed"], open: ["■", "breaker open: not used"] };
    const lines = store.nodes.map((node) => [node.node, node.breaker, ...(breakerText[node.breaker] ?? ["", node.breaker])]);
    const { degraded } = store;
    if (degraded && degraded.open + degraded.closed + degraded.local > 0) {
      lines.push(["without the store", "degraded", "▲", `${count(degraded.open)} admitted, ${count(degraded.closed)} denied, ${count(degraded.local)} decided locally`]);
    }
    for (const { kind, count: n } of store.errors) lines.push([kind, "error", "▲", plural(n, "error")]);
    rows(nodes, lines, ([name, state]) => `${state} ${name}`, ([name]) => h("li", {}, h("b", { "aria-hidden": "true" }), h("code", {}, visible(name)), h("span")),
      (row, [name, state, sign, text]) => {
        attribute(row, "data-node", name);
        attribute(row, "data-breaker", state);
        setText(row.children[0], sign);
        setText(row.children[2], text);
      });
  }

  function policyRow(policy) {
    const spark = sparkline();
    const link = policy.mode === null ? h("span", {}, visible(policy.name), h("span", { class: "soft small" }, ` ${WITHOUT_POLICY.get(policy.name) ?? ""}`))
      : h("a", { href: `#/policy/${encodeURIComponent(policy.name)}` }, visible(policy.name));
    const row = h("tr", { "data-policy": policy.name },
      h("th", { scope: "row" }, link, policy.mode === "shadow" ? h("span", { class: "tag" }, "shadow") : null),
      h("td", { class: "limits", "data-column": "limits" }),
      h("td", { class: "n", "data-figure": "per_second", "data-column": "a second" }),
      h("td", { "data-column": "denied" }, bar()),
      h("td", { class: "spark-col", "data-column": "denials, 5 min" }, spark.element));
    row.spark = spark;
    return row;
  }

  function drawPolicies({ policies: list, last, history }) {
    rows(policies, list, ({ name, mode }) => `${mode} ${name}`, policyRow, (row, policy) => {
      const total = sumOf(policy);
      const shadow = policy.mode === "shadow";
      const denied = shadow ? policy.shadow : deniedOf(policy);
      const part = total === 0 ? 0 : denied / total;
      setText(row.children[1], policy.limits.map(visible).join(", ") || "–");
      setText(row.children[2], rate(total / last.seconds));
      attribute(row.children[2], "data-value", total / last.seconds);
      row.children[3].firstChild.show(part, share(part), shadow ? "shadow" : "denied", total === 0 ? "idle" : shadow ? "would be" : "");
      const seconds = history.policies.find(({ name }) => name === policy.name) ?? {};
      const over = (shadow ? ["shadow"] : DENIED).map((id) => seconds[id]).filter(Boolean);
      const sums = history.p50_us.map((_, i) => over.reduce((sum, values) => sum + values[i], 0));
      attribute(row.spark.element, "data-mode", shadow ? "shadow" : "enforce");
      row.spark.draw(sums, `${count(sums.reduce((a, b) => a + b, 0))} ${shadow ? "would have been denied" : "denied"} in 5 minutes`);
    });
  }

  function drawJournal(lines) {
    // The ids of lines start again when the service restarts.
    rows(journal, lines.slice().reverse(), ({ id, at_ms }) => `${at_ms} ${id}`, (line) => {
      const [sign, name, tone] = JOURNAL[line.kind] ?? ["●", visible(line.kind), "calm"];
      return h("li", { "data-line": line.id, "data-kind": line.kind, class: tone },
        ago(line.at_ms),
        h("span", { class: "kind" }, h("b", { "aria-hidden": "true" }, sign), ` ${name}`),
        h("bdi", { class: "text" }, visible(line.text)),
        line.by ? h("span", { class: "by" }, "by ", h("bdi", {}, visible(line.by))) : null);
    });
  }

  function offerPolicies({ policies: list }) {
    const names = ["", ...list.map(({ name }) => name)];
    if (names.join("\n") === which.dataset.names) return;
    const chosen = which.value;
    which.dataset.names = names.join("\n");
    which.replaceChildren(...names.map((name) => option(name, name === "" ? "all policies" : name)));
    which.value = names.includes(chosen) ? chosen : "";
  }

  return {
    element,
    title: "Overview",
    update() {
      const { overview } = dashboard;
      if (!overview) return;
      const { last, store } = overview;
      setText(summary, summaryText(overview));
      setFigure(figures.per_second, rate(last.per_second), last.per_second, `${count(last.decisions)} in ${last.seconds} s`);
      setFigure(figures.denied_share, share(last.denied_share), last.denied_share, `${count(last.denied)} in ${last.seconds} s`, last.denied_share >= HIGH_DENIED_SHARE ? "bad" : null);
      setFigure(figures.p50, micros(last.p50_us), last.p50_us, "half are faster");
      setFigure(figures.p99, micros(last.p99_us), last.p99_us, "1 in 100 is slower");
      drawNotes(overview);
      drawStore(store);
      offerPolicies(overview);
      drawDecisions();
      drawLatency();
      drawPolicies(overview);
      drawJournal(overview.journal);
    },
  };
}
