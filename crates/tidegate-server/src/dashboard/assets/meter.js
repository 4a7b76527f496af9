// What is in use at a moment between two messages of the service, from what it said last: the same rules it counts by.

import { readLimit } from "./words.js";

export const kindOf = (algorithm) => String(algorithm ?? "").split(":")[0];

const units = (entries) => entries.reduce((sum, entry) => sum + entry.units, 0);

// The edges of buckets are too large for exact products here; the middle of one is never in doubt.
const middle = ({ first_us, last_us }) => (first_us + last_us) / 2;

/** The first microsecond that still counts; what is not later than it has left. */
export function countsFrom(limit, algorithm, nowUs) {
  const { window_us: window, buckets } = limit;
  switch (kindOf(algorithm)) {
    case "fixed_window":
      return Math.floor(nowUs / window) * window;
    case "sliding_buckets":
      return Math.ceil(((Math.floor((nowUs * buckets) / window) - buckets) * window) / buckets);
    default:
      return nowUs - window;
  }
}

export function usedAt(limit, algorithm, nowUs, toldUs) {
  const { window_us: window, entries } = limit;
  const from = countsFrom(limit, algorithm, nowUs);
  switch (kindOf(algorithm)) {
    case "sliding_log":
      // Units that are not listed are the oldest ones, and only the service knows when they leave.
      return limit.unlisted > 0 ? limit.used : units(entries.filter(({ last_us }) => last_us > from));
    case "sliding_buckets":
    case "fixed_window":
      return limit.unlisted > 0 ? limit.used : units(entries.filter((entry) => middle(entry) > from));
    case "sliding_counter": {
      const start = Math.floor(nowUs / window) * window;
      const current = units(entries.filter(({ first_us }) => first_us >= start));
      const previous = units(entries.filter(({ first_us }) => first_us >= start - window && first_us < start));
      return current + Math.floor((previous * (window - (nowUs - start))) / window);
    }
    case "gcra": {
      const max = readLimit(limit.limit)?.max ?? limit.capacity;
      return Math.min(limit.used, Math.ceil((debtAt(limit, nowUs, toldUs) * max) / window));
    }
    default:
      return limit.used;
  }
}

/** How many milliseconds until a unit frees if nobody spends, or null if none is in use. */
export function nextFreeMs(limit, algorithm, nowUs, toldUs) {
  const { window_us: window, entries, buckets } = limit;
  const used = usedAt(limit, algorithm, nowUs, toldUs);
  if (used === 0) return null;
  const from = countsFrom(limit, algorithm, nowUs);
  const kind = kindOf(algorithm);
  const oldest = entries.find(({ first_us, last_us, units }) => units > 0 && (kind === "sliding_log" ? last_us > from : middle({ first_us, last_us }) > from));
  const told = () => (limit.next_free_after_ms ?? null) && Math.max(0, limit.next_free_after_ms - (nowUs - toldUs) / 1000);
  if (limit.unlisted > 0) return told();
  switch (kind) {
    case "sliding_log":
      return oldest ? (oldest.last_us + window - nowUs) / 1000 : told();
    case "sliding_buckets":
      return oldest ? (((Math.round((oldest.first_us * buckets) / window) + buckets + 1) * window) / buckets - nowUs) / 1000 : told();
    case "fixed_window":
      return (from + window - nowUs) / 1000;
    case "sliding_counter": {
      const start = Math.floor(nowUs / window) * window;
      const previous = units(entries.filter(({ first_us }) => first_us >= start - window && first_us < start));
      const weighed = Math.floor((previous * (window - (nowUs - start))) / window);
      return ((weighed > 0 ? start + window - (weighed * window) / previous : start + window) - nowUs) / 1000;
    }
    case "gcra": {
      const max = readLimit(limit.limit)?.max ?? limit.capacity;
      return (debtAt(limit, nowUs, toldUs) - ((used - 1) * window) / max) / 1000;
    }
    default:
      return told();
  }
}

/** How many microseconds of debt are left to drain. */
export const debtAt = (limit, nowUs, toldUs) => Math.max(0, limit.reset_after_ms * 1000 - (nowUs - toldUs));

/** The debt of a key that has used all it can. */
export function fullDebt(limit) {
  const max = readLimit(limit.limit)?.max ?? limit.capacity;
  return (limit.capacity * limit.window_us) / max;
}
