// The overview: who is denied now, by which policy, and whether the service is healthy. data-figure="per_second|denied_share|p50|p99|keys|bytes|store" with data-value; rows data-policy="NAME"
// with data-figure="per_second|denied_share" inside; events data-line="ID" data-kind="KIND".

import { h, set, setText, rows, ago, bar, figure, hiddenCaption, offer, panel, policyLink, setFigure, table } from "./dom.js";
import { chart, sparkline } from "./chart.js";
import { addUp, total } from "./dashboard.js";
import { firstSteps } from "./empty.js";
import { hardestPanel } from "./hardest.js";
import { leasesPanel } from "./leases.js";
import { OUTCOMES, EVENTS, WITHOUT_POLICY, beyondLimit, briefRate, clockTime, count, decisionsOf, micros, plural, rate, share, size, span, visible } from "./format.js";

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

export function overviewView(context) {
  const { dashboard, session, connection } = context;
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
  const decisions = chart({ name: "decisions", title: "Decisions", unit: "a second, by outcome", kind: "stack", series: OUTCOMES, format: rate, axis: briefRate, whole: true, height: 170,
    tool: h("span", { class: "choice" }, h("label", { for: "which", class: "unseen" }, "policy in the chart"), which) });
  const latency = chart({ name: "latency", title: "Latency", unit: "of a decision", kind: "lines", series: LATENCY, format: micros, height: 130 });
  const policies = h("tbody");
  const events = h("ol", { class: "journal", id: "journal" });
  const nodes = h("ul", { class: "nodes" });
  const hardest = hardestPanel(context);
  const leases = leasesPanel(context);
  const steps = h("div", { class: "steps", hidden: true });

  const element = h("div", { class: "view" },
    h("h1", { tabindex: -1 }, "Overview"),
    summary,
    notes,
    h("section", { "aria-label": "Figures of the last ten seconds" }, h("dl", { class: "tiles" }, Object.values(figures)), nodes),
    steps,
    h("div", { class: "columns" },
      h("div", { class: "column" },
        hardest.element,
        panel("Policies",
          h("p", { class: "soft small" }, "The policies with the most denials in the last 5 minutes are first."),
          table({ class: "policies fold" }, hiddenCaption("Each policy in the last ten seconds"),
            ["policy", "limits", ["a second", "n"], "denied", ["denials, 5 min", "spark-col"]], policies),
          h("p", { class: "none soft" }, "There are no policies. Add one to the configuration file.")),
        leases.element),
      h("div", { class: "column" },
        h("section", { class: "panel", "aria-label": "Decisions in the last five minutes" }, decisions.element),
        h("section", { class: "panel", "aria-label": "Latency in the last five minutes" }, latency.element),
        panel("Events",
          h("p", { class: "soft small" }, "Starts, reloads and failures of the service; resets, other limits, bans and exemptions by operators. The newest event is first."),
          h("div", { class: "scroll tall", tabindex: 0, role: "group", "aria-label": "list of events" }, events,
            h("p", { class: "none soft" }, "No events yet. A reload of the configuration or a change of a key adds one."))))));

  function drawDecisions() {
    const name = which.value || undefined;
    const { values, ...history } = dashboard.history(name);
    const all = total(Object.values(values).flat());
    const denied = total(addUp(values, beyondLimit(false)));
    decisions.draw({
      ...history, values,
      summary: `Decisions a second in the last 5 minutes for ${name ? visible(name) : "all policies"}: ${count(all)} in total, `
        + `${share(all ? denied / all : 0)} denied; in the last ten seconds ${rate(dashboard.overview.last.per_second)} a second for all policies.`,
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
    const down = connection();
    if (down) return `The service does not answer. These figures are from ${clockTime(down.lastEventMs)}.`;
    const first = last.decisions === 0 ? "No traffic."
      : denying.length === 0 ? "No request is denied now." : `Denying now: ${names.join(", ")}${more}.`;
    return `${first} Store: ${store.answers ? "healthy" : "no answer"}. Running for ${span(now_ms - started_ms)}.`;
  }

  function drawNotes({ configuration_error, store }) {
    const lines = [
      configuration_error && ["Configuration: the file was refused, and the previous policies stay active.", configuration_error],
      store.may_evict && ["Store: Redis may evict counters when its memory is full. Then more requests than the limit are allowed.", ""],
      store.no_room && [`Store: full. ${plural(store.no_room, "request")} for new keys found no room since the start.`, ""],
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
      : policyLink(name);
    return Object.assign(h("tr", { "data-policy": name },
      h("th", { scope: "row" }, link, mode === "shadow" && h("span", { class: "tag" }, "shadow")),
      h("td", { class: "limits", "data-column": "limits" }),
      h("td", { class: "n", "data-figure": "per_second", "data-column": "a second" }),
      h("td", { "data-column": "denied" }, bar("denied_share")),
      h("td", { class: "spark-col", "data-column": "denials, 5 min" }, spark.element)), { spark });
  }

  /** Returns the policies with their denials, those with the most denials first. Would-be denials come after denials. */
  function ranked(list) {
    const withDenials = list.map((policy) => {
      const { values } = dashboard.history(policy.name);
      return { policy, denied: addUp(values, beyondLimit(policy.mode === "shadow")), real: total(addUp(values, beyondLimit(false))), wouldBe: total(values.shadow ?? []) };
    });
    // The sort is stable: equal policies keep the order of the service.
    return withDenials.sort((a, b) => b.real - a.real || b.wouldBe - a.wouldBe);
  }

  function drawPolicies({ policies: list, last }) {
    rows(policies, ranked(list), ({ policy: { name, mode } }) => `${mode} ${name}`, ({ policy }) => policyRow(policy), (row, { policy, denied }) => {
      const isShadow = policy.mode === "shadow";
      const { all, share: part } = decisionsOf(policy, isShadow);
      setText(row.children[1], policy.limits.map(visible).join(", ") || "–");
      setText(row.children[2], rate(all / last.seconds));
      set(row.children[2], { "data-value": all / last.seconds });
      row.children[3].firstChild.show(part, part, share(part), isShadow ? "shadow" : "denied", all === 0 ? "no traffic" : isShadow ? "would be denied" : "");
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

  /** Draws what says whether the figures are current. */
  function drawConnection() {
    const { overview } = dashboard;
    if (overview) {
      setText(summary, summaryText(overview));
      hardest.drawTime(overview);
    }
    set(summary, { "data-state": connection() ? "down" : "up" });
  }

  function drawSteps({ policies: list }) {
    const configured = list.filter(({ mode }) => mode !== null).map(({ name }) => name).sort()[0];
    const isIdle = total(Object.values(dashboard.history().values).flat()) === 0;
    const id = isIdle ? `first ${configured}` : "";
    steps.hidden = !isIdle;
    if (steps.dataset.id === id) return;
    steps.dataset.id = id;
    steps.replaceChildren(...(isIdle ? [firstSteps(session, configured)] : []));
  }

  return {
    element,
    title: "Overview",
    connectionChanged: drawConnection,
    update() {
      const { overview } = dashboard;
      if (!overview) return;
      const { last, store, policies, journal } = overview;
      drawConnection();
      drawSteps(overview);
      hardest.draw(overview);
      leases.draw(overview);
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
