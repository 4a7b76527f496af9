// The data of the dashboard: the first overview of the stream, updated by each tick.

import { OUTCOMES } from "./format.js";

const KEPT_POINTS = 300;
const KEPT_LINES = 200;

export function createDashboard() {
  const dashboard = { overview: null, catalogue: new Map() };

  dashboard.replace = (overview) => {
    padHistory(overview.history);
    dashboard.overview = overview;
  };

  dashboard.tick = (tick) => {
    const known = dashboard.overview;
    if (!known) return;
    Object.assign(known, {
      now_ms: tick.now_ms,
      configuration_error: tick.configuration_error,
      store: tick.store,
      last: tick.last,
      policies: tick.policies,
    });
    if (tick.point) addPoint(known.history, tick.point);
    const seen = new Set(known.journal.map((line) => line.id));
    known.journal.push(...(tick.journal ?? []).filter((line) => !seen.has(line.id)));
    known.journal.splice(0, known.journal.length - KEPT_LINES);
  };

  return dashboard;
}

/** Fills the history before the start of the service with empty points. */
function padHistory(history) {
  const missing = KEPT_POINTS - history.p50_us.length;
  if (missing <= 0) return;
  history.from_ms -= missing * history.step_ms;
  for (const list of [history.p50_us, history.p99_us]) list.unshift(...Array(missing).fill(null));
  for (const policy of history.policies) for (const { id } of OUTCOMES) policy[id]?.unshift(...Array(missing).fill(0));
}

function addPoint(history, point) {
  const at = Math.round((point.at_ms - history.from_ms) / history.step_ms);
  if (at < 0) return;
  let length = history.p50_us.length;
  // Missing seconds have no known decisions.
  const grow = Math.max(0, Math.min(at + 1 - length, KEPT_POINTS));
  if (at + 1 - length > KEPT_POINTS) history.from_ms = point.at_ms - (length + grow - 1) * history.step_ms;
  for (const policy of point.policies) {
    if (!history.policies.some(({ name }) => name === policy.name)) history.policies.push({ name: policy.name });
  }
  const blank = (n, value) => Array(n).fill(value);
  for (const name of ["p50_us", "p99_us"]) history[name].push(...blank(grow, null));
  for (const policy of history.policies) {
    const counts = point.policies.find(({ name }) => name === policy.name);
    for (const { id } of OUTCOMES) {
      if (policy[id]) policy[id].push(...blank(grow, 0));
      else if (counts?.[id]) policy[id] = blank(length + grow, 0);
    }
  }
  length += grow;
  const index = Math.min(at, length - 1);
  history.p50_us[index] = point.p50_us ?? null;
  history.p99_us[index] = point.p99_us ?? null;
  for (const policy of history.policies) {
    const counts = point.policies.find(({ name }) => name === policy.name);
    for (const { id } of OUTCOMES) if (policy[id]) policy[id][index] = counts?.[id] ?? 0;
  }
  const surplus = length - KEPT_POINTS;
  if (surplus <= 0) return;
  history.from_ms += surplus * history.step_ms;
  for (const list of [history.p50_us, history.p99_us]) list.splice(0, surplus);
  for (const policy of history.policies) for (const { id } of OUTCOMES) policy[id]?.splice(0, surplus);
}

/** Returns the counts per second of one policy, or of all policies, as one list for each outcome. */
export function series(history, name) {
  const length = history.p50_us.length;
  const sums = {};
  for (const policy of history.policies) {
    if (name !== undefined && policy.name !== name) continue;
    for (const { id } of OUTCOMES) {
      if (!policy[id]) continue;
      const sum = (sums[id] ??= Array(length).fill(0));
      for (let i = 0; i < length; i++) sum[i] += policy[id][i] ?? 0;
    }
  }
  return sums;
}
