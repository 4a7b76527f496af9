// The data of the dashboard: the first overview of the stream, updated by each tick.

import { OUTCOMES } from "./format.js";

const SECONDS = 300;
const STEP_MS = 1000;
const KEPT_EVENTS = 200;

export function createDashboard() {
  // The last seconds, by their start. A missing second has no known decisions.
  const seconds = new Map();
  const dashboard = { overview: null, catalogue: new Map() };

  function addSecond({ at_ms, p50_us, p99_us, policies }) {
    seconds.set(at_ms, { p50_us, p99_us, policies: new Map(policies.map((policy) => [policy.name, policy])) });
    for (const old of seconds.keys()) if (old <= at_ms - SECONDS * STEP_MS) seconds.delete(old);
  }

  dashboard.replace = (overview) => {
    const { from_ms, step_ms, p50_us, p99_us, policies } = overview.history;
    const countsAt = (policy, i) => Object.fromEntries(OUTCOMES.map(({ id }) => [id, policy[id]?.[i]]));
    seconds.clear();
    p50_us.forEach((p50, i) => addSecond({
      at_ms: from_ms + i * step_ms, p50_us: p50, p99_us: p99_us[i],
      policies: policies.map((policy) => ({ name: policy.name, ...countsAt(policy, i) })),
    }));
    dashboard.overview = overview;
  };

  dashboard.tick = ({ point, journal, ...now }) => {
    const { overview } = dashboard;
    if (!overview) return;
    Object.assign(overview, now);
    if (point) addSecond(point);
    const seen = new Set(overview.journal.map(({ id }) => id));
    overview.journal.push(...journal.filter(({ id }) => !seen.has(id)));
    overview.journal.splice(0, overview.journal.length - KEPT_EVENTS);
  };

  /** Returns the last five minutes: the latencies, and the decisions of one policy or of all policies by outcome. An outcome that did not occur is left out. */
  dashboard.history = (name) => {
    const newest = [...seconds.keys()].at(-1) ?? dashboard.overview.now_ms;
    const from_ms = newest - (SECONDS - 1) * STEP_MS;
    const each = Array.from({ length: SECONDS }, (_, i) => seconds.get(from_ms + i * STEP_MS));
    const values = { allowed: Array(SECONDS).fill(0) };
    each.forEach((second, i) => {
      if (!second) return;
      for (const policy of name === undefined ? second.policies.values() : [second.policies.get(name) ?? {}]) {
        for (const { id } of OUTCOMES) if (policy[id]) (values[id] ??= Array(SECONDS).fill(0))[i] += policy[id];
      }
    });
    return { from_ms, step_ms: STEP_MS, values, p50_us: each.map((second) => second?.p50_us ?? null), p99_us: each.map((second) => second?.p99_us ?? null) };
  };

  return dashboard;
}

export const total = (list) => list.reduce((sum, n) => sum + n, 0);

/** Adds the values of these outcomes for each second. */
export const addUp = (values, outcomes) => Array.from({ length: SECONDS }, (_, i) => total(outcomes.map((id) => values[id]?.[i] ?? 0)));
