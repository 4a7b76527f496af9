// Computes the units in use between two events of the service, with the rules of the service.

import { parseLimit } from "./format.js";

export const kindOf = (algorithm) => String(algorithm ?? "").split(":")[0];

const units = (entries) => entries.reduce((sum, entry) => sum + entry.units, 0);

// The edges of buckets are too large for exact products. The middle of a bucket is unambiguous.
const middle = ({ first_us, last_us }) => (first_us + last_us) / 2;

/** The start of the counted time: entries at or before it no longer count. */
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

export function usedAt(limit, algorithm, nowUs, receivedUs) {
  const { window_us: window, entries } = limit;
  const from = countsFrom(limit, algorithm, nowUs);
  switch (kindOf(algorithm)) {
    case "sliding_log":
      // Unlisted units are the oldest, and only the service knows when they leave.
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
      const max = parseLimit(limit.limit)?.max ?? limit.capacity;
      return Math.min(limit.used, Math.ceil((debtAt(limit, nowUs, receivedUs) * max) / window));
    }
    default:
      return limit.used;
  }
}

/** The milliseconds until the next unit is free without further requests, or null if none is in use. */
export function nextFreeMs(limit, algorithm, nowUs, receivedUs) {
  const { window_us: window, entries, buckets } = limit;
  const used = usedAt(limit, algorithm, nowUs, receivedUs);
  if (used === 0) return null;
  const from = countsFrom(limit, algorithm, nowUs);
  const kind = kindOf(algorithm);
  const oldest = entries.find(({ first_us, last_us, units }) => units > 0 && (kind === "sliding_log" ? last_us > from : middle({ first_us, last_us }) > from));
  const reported = () => (limit.next_free_after_ms ?? null) && Math.max(0, limit.next_free_after_ms - (nowUs - receivedUs) / 1000);
  if (limit.unlisted > 0) return reported();
  switch (kind) {
    case "sliding_log":
      return oldest ? (oldest.last_us + window - nowUs) / 1000 : reported();
    case "sliding_buckets":
      return oldest ? (((Math.round((oldest.first_us * buckets) / window) + buckets + 1) * window) / buckets - nowUs) / 1000 : reported();
    case "fixed_window":
      return (from + window - nowUs) / 1000;
    case "sliding_counter": {
      const start = Math.floor(nowUs / window) * window;
      const previous = units(entries.filter(({ first_us }) => first_us >= start - window && first_us < start));
      const weighed = Math.floor((previous * (window - (nowUs - start))) / window);
      return ((weighed > 0 ? start + window - (weighed * window) / previous : start + window) - nowUs) / 1000;
    }
    case "gcra": {
      const max = parseLimit(limit.limit)?.max ?? limit.capacity;
      return (debtAt(limit, nowUs, receivedUs) - ((used - 1) * window) / max) / 1000;
    }
    default:
      return reported();
  }
}

/** The remaining debt in microseconds. */
export const debtAt = (limit, nowUs, receivedUs) => Math.max(0, limit.reset_after_ms * 1000 - (nowUs - receivedUs));

/** The debt of a key without remaining units. */
export function fullDebt(limit) {
  const max = parseLimit(limit.limit)?.max ?? limit.capacity;
  return (limit.capacity * limit.window_us) / max;
}
