// The overview. data-figure="per_second|denied_share|p50|p99|keys|bytes|store" with data-value; rows data-policy="NAME"
// with data-figure="per_second|denied_share" inside; events data-line="ID" data-kind="KIND".

import { h, set, setText, rows, ago, bar, figure, hiddenCaption, offer, panel, setFigure, table } from "./dom.js";
import { chart, sparkline } from "./chart.js";
import { addUp, total } from "./dashboard.js";
import { OUTCOMES, EVENTS, WITHOUT_POLICY, beyondLimit, briefRate, count, decisionsOf, micros, plural, rate, share, size, span, visible } from "./format.js";

const LATENCY = [
  { id: "p99", name: "p99", meaning: "99 of 100 decisions were at least as fast" },
  { id: "p50", name: "p50", meaning: "half of the decisions were at least as fast" },
];

const BREAKER = {
  closed: ["✓", "breaker closed: the server is used"],
  half_open: ["▲", "breaker half open: the server is tested"],
  open: ["■", "breaker open: the server is not used"],
};

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
  const which = h("select", { id: "which", change: () => drawDecisions() });
  const decisions = chart({ name: "decisions", title: "Decisions", unit: "a second, by outcome", kind: "stack", series: OUTCOMES, format: rate, axis: briefRate, whole: true,
    tool: h("span", { class: "choice" }, h("label", { for: "which", class: "unseen" }, "policy in the chart"), which) });
  const latency = chart({ name: "latency", title: "Latency", unit: "of a decision", kind: "lines", series: LATENCY, format: micros });
  const policies = h("tbody");
  const events = h("ol", { class: "journal", id: "journal" });
  const nodes = h("ul", { class: "nodes" });

  const element = h("div", { class: "view" },
    h("h1", { tabindex: -1 }, "Overview"),
    summary,
    notes,
    h("section", { "aria-label": "Figures of the last ten seconds" }, h("dl", { class: "tiles" }, Object.values(figures)), nodes),
    h("section", { class: "charts", "aria-label": "Figures of the last five minutes" },
      h("div", { class: "panel" }, decisions.element),
      h("div", { class: "panel" }, latency.element)),
    panel("Policies",
      table({ class: "policies fold" }, hiddenCaption("Each policy in the last ten seconds"),
        ["policy", "limits", ["a second", "n"], "denied", ["denials, 5 min", "spark-col"]], policies),
      h("p", { class: "none soft" }, "There are no policies, and no caller supplies limits.")),
    panel("Events",
      h("p", { class: "soft small" }, "Starts, reloads and failures of the service, and resets and overrides by operators. The newest event is first."),
      h("div", { class: "scroll tall", tabindex: 0, role: "group", "aria-label": "list of events" }, events)));

  function drawDecisions() {
    const name = which.value || undefined;
    const { values, ...history } = dashboard.history(name);
    const all = total(Object.values(values).flat());
    const denied = total(addUp(values, beyondLimit(false)));
    decisions.draw({
      ...history, values,
      summary: `Decisions a second in the last 5 minutes for ${name ? visible(name) : "all policies"}: ${count(all)} in total, `
        + `${share(all ? denied / all : 0)} denied; now ${rate(dashboard.overview.last.per_second)} a second for all policies.`,
    });
  }

  function drawLatency() {
    const { last } = dashboard.overview;
    const history = dashboard.history();
    latency.draw({
      ...history, values: { p99: history.p99_us, p50: history.p50_us },
      summary: `Latency of a decision: half within ${micros(last.p50_us)}, 99 of 100 within ${micros(last.p99_us)} in the last ten seconds.`,
    });
  }

  function summaryText({ last, now_ms, policies, started_ms, store }) {
    const denying = policies.map((policy) => ({ ...policy, ...decisionsOf(policy) })).filter(({ denied }) => denied > 0).sort((a, b) => b.denied - a.denied);
    const names = denying.slice(0, 3).map((policy) => `${WITHOUT_POLICY.get(policy.name) ?? visible(policy.name)} (${share(policy.share)})`);
    const more = denying.length > 3 ? ` and ${denying.length - 3} more` : "";
    const first = last.decisions === 0 ? "There are no requests now."
      : denying.length === 0 ? "No requests are denied now." : `Policies that deny requests now: ${names.join(", ")}${more}.`;
    return `${first} ${store.answers ? "The store is healthy." : "The store does not answer."} The service has run for ${span(now_ms - started_ms)}.`;
  }

  function drawNotes({ configuration_error, store }) {
    const lines = [
      configuration_error && ["The configuration file was refused; the previous policies stay active.", configuration_error],
      store.may_evict && ["The store may evict counters when its memory is full. Then limits can be exceeded.", ""],
      store.no_room && [`The store had no room for ${plural(store.no_room, "new key")} since the start.`, ""],
    ].filter(Boolean);
    rows(notes, lines, ([text]) => text, () => h("p", { class: "note" }, h("b", { "aria-hidden": "true" }, "▲ "), h("span"), h("code")),
      (row, parts) => parts.forEach((part, i) => setText(row.children[i + 1], visible(part))));
  }

  function drawStore(store) {
    const has = (breaker) => store.nodes.some((node) => node.breaker === breaker);
    const [text, tone] = !store.answers ? ["■ no answer", "bad"] : has("open") ? ["▲ breaker open", "bad"] : has("half_open") ? ["▲ reconnecting", "warn"] : ["✓ healthy", "good"];
    const errors = total(store.errors.map(({ count }) => count));
    setFigure(figures.store, text, store.answers ? "healthy" : "failing", `${visible(store.kind)}${errors ? `, ${plural(errors, "error")}` : ""}`, tone);
    const setUsage = (tile, used, max, format) => setFigure(tile, used === null ? "–" : format(used), used,
      max !== null ? `of ${format(max)}` : used === null ? "not reported" : "", max && used > 0.9 * max ? "warn" : null);
    setUsage(figures.keys, store.keys, store.max_keys, count);
    setUsage(figures.bytes, store.bytes, store.max_bytes, size);
    const lines = store.nodes.map(({ node, breaker }) => [node, breaker, ...(BREAKER[breaker] ?? ["", breaker])]);
    const { open, closed, local } = store.degraded ?? { open: 0, closed: 0, local: 0 };
    if (open + closed + local > 0) {
      lines.push(["decisions without the store", "degraded", "▲", `${count(open)} admitted, ${count(closed)} denied, ${count(local)} made by this node`]);
    }
    for (const { kind, count: n } of store.errors) lines.push([kind, "error", "▲", plural(n, "error")]);
    rows(nodes, lines, ([name, state]) => `${state} ${name}`, ([name]) => h("li", {}, h("b", { "aria-hidden": "true" }), h("code", {}, visible(name)), h("span")),
      (row, [name, state, sign, text]) => {
        set(row, { "data-node": name, "data-breaker": state });
        setText(row.children[0], sign);
        setText(row.children[2], text);
      });
  }

  function policyRow({ name, mode }) {
    const spark = sparkline();
    const link = mode === null ? h("span", {}, visible(name), h("span", { class: "soft small" }, ` ${WITHOUT_POLICY.get(name) ?? ""}`))
      : h("a", { href: `#/policy/${encodeURIComponent(name)}` }, visible(name));
    return Object.assign(h("tr", { "data-policy": name },
      h("th", { scope: "row" }, link, mode === "shadow" && h("span", { class: "tag" }, "shadow")),
      h("td", { class: "limits", "data-column": "limits" }),
      h("td", { class: "n", "data-figure": "per_second", "data-column": "a second" }),
      h("td", { "data-column": "denied" }, bar("denied_share")),
      h("td", { class: "spark-col", "data-column": "denials, 5 min" }, spark.element)), { spark });
  }

  function drawPolicies({ policies: list, last }) {
    rows(policies, list, ({ name, mode }) => `${mode} ${name}`, policyRow, (row, policy) => {
      const isShadow = policy.mode === "shadow";
      const { all, share: part } = decisionsOf(policy, isShadow);
      setText(row.children[1], policy.limits.map(visible).join(", ") || "–");
      setText(row.children[2], rate(all / last.seconds));
      set(row.children[2], { "data-value": all / last.seconds });
      row.children[3].firstChild.show(part, part, share(part), isShadow ? "shadow" : "denied", all === 0 ? "idle" : isShadow ? "would be" : "");
      const denied = addUp(dashboard.history(policy.name).values, beyondLimit(isShadow));
      set(row.spark.element, { "data-mode": isShadow ? "shadow" : "enforce" });
      row.spark.draw(denied, `${count(total(denied))} ${isShadow ? "would have been denied" : "denied"} in 5 minutes`);
    });
  }

  function drawEvents(list) {
    // The ids of events start again when the service restarts.
    rows(events, list.slice().reverse(), ({ id, at_ms }) => `${at_ms} ${id}`, ({ id, at_ms, kind, text, by }) => {
      const [sign, name, tone] = EVENTS[kind] ?? ["●", visible(kind), "calm"];
      return h("li", { "data-line": id, "data-kind": kind, class: tone },
        ago(at_ms),
        h("span", { class: "kind" }, h("b", { "aria-hidden": "true" }, sign), ` ${name}`),
        h("bdi", { class: "text" }, visible(text)),
        by && h("span", { class: "by" }, "by ", h("bdi", {}, visible(by))));
    });
  }

  return {
    element,
    title: "Overview",
    update() {
      const { overview } = dashboard;
      if (!overview) return;
      const { last, store, policies, journal } = overview;
      setText(summary, summaryText(overview));
      setFigure(figures.per_second, rate(last.per_second), last.per_second, `${count(last.decisions)} in ${last.seconds} s`);
      setFigure(figures.denied_share, share(last.denied_share), last.denied_share, `${count(last.denied)} in ${last.seconds} s`, last.denied_share >= HIGH_DENIED_SHARE ? "bad" : null);
      setFigure(figures.p50, micros(last.p50_us), last.p50_us, "half are faster");
      setFigure(figures.p99, micros(last.p99_us), last.p99_us, "1 in 100 is slower");
      drawNotes(overview);
      drawStore(store);
      offer(which, ["", ...policies.map(({ name }) => name)], "", (name) => name || "all policies");
      drawDecisions();
      drawLatency();
      drawPolicies(overview);
      drawEvents(journal);
    },
  };
}
