// Computes the units in use between two events of the service, with the rules of the service.

import { parseLimit } from "./format.js";

export const kindOf = (algorithm) => String(algorithm ?? "").split(":")[0];

const units = (entries) => entries.reduce((sum, entry) => sum + entry.units, 0);

/** The start of the current aligned window. */
export const windowStart = ({ window_us: window }, nowUs) => Math.floor(nowUs / window) * window;

/** The start of the counted time: entries at or before it no longer count. */
export function countsFrom(limit, algorithm, nowUs) {
  const { window_us: window, buckets } = limit;
  switch (kindOf(algorithm)) {
    case "fixed_window":
      return windowStart(limit, nowUs);
    case "sliding_buckets":
      return Math.ceil(((Math.floor((nowUs * buckets) / window) - buckets) * window) / buckets);
    default:
      return nowUs - window;
  }
}

/** The entries that count. The edges of buckets are too large for exact products, so the middle of a bucket decides. */
function countedEntries(limit, algorithm, nowUs) {
  const from = countsFrom(limit, algorithm, nowUs);
  const timeOf = kindOf(algorithm) === "sliding_log" ? ({ last_us }) => last_us : ({ first_us, last_us }) => (first_us + last_us) / 2;
  return limit.entries.filter((entry) => timeOf(entry) > from);
}

/** The units of the previous aligned window, those of them that still count, and the units of the current window. */
function twoWindows(limit, nowUs) {
  const { window_us: window, entries } = limit;
  const start = windowStart(limit, nowUs);
  const previous = units(entries.filter(({ first_us }) => first_us >= start - window && first_us < start));
  const current = units(entries.filter(({ first_us }) => first_us >= start));
  return { start, previous, counted: Math.floor((previous * (window - (nowUs - start))) / window), current };
}

export function usedAt(limit, algorithm, nowUs, receivedUs) {
  const leased = limit.leased ?? 0;
  switch (kindOf(algorithm)) {
    case "sliding_log":
    case "sliding_buckets":
    case "fixed_window":
      // Unlisted units are the oldest, and only the service knows when they leave.
      return limit.unlisted > 0 ? limit.used : units(countedEntries(limit, algorithm, nowUs)) + leased;
    case "sliding_counter": {
      const { counted, current } = twoWindows(limit, nowUs);
      return current + counted + leased;
    }
    case "gcra":
      return Math.min(limit.used, Math.ceil((debtAt(limit, nowUs, receivedUs) * maximumOf(limit)) / limit.window_us) + leased);
    default:
      return limit.used;
  }
}

/** The milliseconds until the next unit is free without further requests, or null if none is in use. */
export function nextFreeMs(limit, algorithm, nowUs, receivedUs) {
  const { window_us: window, buckets } = limit;
  const used = usedAt(limit, algorithm, nowUs, receivedUs);
  if (used === 0) return null;
  const oldest = countedEntries(limit, algorithm, nowUs).find((entry) => entry.units > 0);
  const kind = limit.unlisted > 0 ? "unlisted" : kindOf(algorithm);
  if (kind === "sliding_log" && oldest) return (oldest.last_us + window - nowUs) / 1000;
  if (kind === "sliding_buckets" && oldest) {
    const bucket = Math.round((oldest.first_us * buckets) / window);
    return (((bucket + buckets + 1) * window) / buckets - nowUs) / 1000;
  }
  if (kind === "fixed_window") return (windowStart(limit, nowUs) + window - nowUs) / 1000;
  if (kind === "sliding_counter") {
    const { start, previous, counted } = twoWindows(limit, nowUs);
    return (start + window - (counted > 0 ? (counted * window) / previous : 0) - nowUs) / 1000;
  }
  if (kind === "gcra") return (debtAt(limit, nowUs, receivedUs) - ((used - 1) * window) / maximumOf(limit)) / 1000;
  return (limit.next_free_after_ms ?? null) && Math.max(0, limit.next_free_after_ms - (nowUs - receivedUs) / 1000);
}

/** The remaining debt in microseconds. */
export const debtAt = (limit, nowUs, receivedUs) => Math.max(0, limit.reset_after_ms * 1000 - (nowUs - receivedUs));

/** The number in a limit. A burst makes the capacity smaller or larger. */
export const maximumOf = (limit) => parseLimit(limit.limit)?.max ?? limit.capacity;

/** The debt of a key without remaining units. */
export const fullDebt = (limit) => (limit.capacity * limit.window_us) / maximumOf(limit);
