// Counts the units that a key was charged, from its states of each second. The service does not count admissions by key.

import { kindOf, maximumOf } from "./meter.js";

const KEPT_MS = 330_000;

/** The limit with the longest window forgets its charges last. */
const longest = (limits) => limits.reduce((a, b) => (b && b.window_us > a.window_us ? b : a), limits[0]);

export function admissions() {
  let before = null;
  let since = null;
  // The charged units by the time of the charge, in milliseconds.
  let charges = [];

  function chargedSince({ algorithm, now_us: nowUs }, limit) {
    switch (kindOf(algorithm)) {
      case "sliding_log":
        return limit.entries.filter(({ last_us }) => last_us > before.nowUs).map(({ last_us, units }) => [last_us / 1000, units]);
      case "gcra": {
        const paid = Math.max(0, before.limit.reset_after_ms - (nowUs - before.nowUs) / 1000);
        return [[nowUs / 1000, Math.round(((limit.reset_after_ms - paid) * 1000 * maximumOf(limit)) / limit.window_us)]];
      }
      default: {
        const known = new Map(before.limit.entries.map(({ first_us, units }) => [first_us, units]));
        return limit.entries.map(({ first_us, last_us, units }) => [Math.min(last_us, nowUs) / 1000, units - (known.get(first_us) ?? 0)]);
      }
    }
  }

  return {
    /** Adds the charges between two states. */
    update(state) {
      const limit = longest(state.limits);
      // Without a window, nothing shows what was admitted.
      if (!limit || limit.window_us === 0) return;
      const nowMs = state.now_us / 1000;
      const isSame = before && before.limit.limit === limit.limit && before.algorithm === state.algorithm;
      if (isSame) {
        charges.push(...chargedSince(state, limit).filter(([, units]) => units > 0));
      } else {
        // A log contains the time of each charge in its window.
        const isLog = kindOf(state.algorithm) === "sliding_log";
        charges = isLog ? limit.entries.map(({ last_us, units }) => [last_us / 1000, units]) : [];
        since = !isLog ? nowMs : limit.unlisted > 0 ? charges[0][0] : nowMs - limit.window_us / 1000;
      }
      charges = charges.filter(([at]) => at > nowMs - KEPT_MS);
      before = { limit, nowUs: state.now_us, algorithm: state.algorithm };
    },
    /** Returns the time from which on all charges are known, in milliseconds; null before the first state. */
    since: () => since,
    /** Returns the units charged in each of `steps` steps. */
    inSteps(fromMs, stepMs, steps) {
      const sums = Array(steps).fill(0);
      for (const [at, units] of charges) {
        const step = Math.floor((at - fromMs) / stepMs);
        if (step >= 0 && step < steps) sums[step] += units;
      }
      return sums;
    },
  };
}
