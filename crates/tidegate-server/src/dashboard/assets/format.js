// Formats of numbers, times, sizes and names. These functions do not access the page.

const whole = new Intl.NumberFormat("en");
const tenth = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minute = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const moment = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** Escapes invisible characters and characters that change the text direction: U+202E becomes \u{202e}. */
export function visible(text) {
  return String(text ?? "").replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

export const count = (n) => whole.format(Math.round(n));
export const rate = (n) => (n > 0 && n < 9.95 && !Number.isInteger(n) ? tenth.format(n) : whole.format(Math.round(n)));
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
/** A short rate for an axis. */
export const briefRate = (n) => (n < 10_000 ? rate(n) : compact.format(n));
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

export function share(part) {
  if (!Number.isFinite(part) || part <= 0) return "0 %";
  if (part < 0.001) return "< 0.1 %";
  if (part >= 0.9995) return "100 %";
  return `${tenth.format(part * 100)} %`;
}

export function micros(us) {
  if ((us ?? null) === null) return "–";
  if (us < 1000) return `${whole.format(Math.round(us))} µs`;
  if (us < 1e6) return `${us < 99_950 ? tenth.format(us / 1e3) : whole.format(Math.round(us / 1e3))} ms`;
  return `${tenth.format(us / 1e6)} s`;
}

/** A size in powers of 1000, as in the configuration: 512MB is 512.0 MB. */
export function size(bytes) {
  if ((bytes ?? null) === null) return "–";
  if (bytes < 999_950) return `${tenth.format(bytes / 1e3)} kB`;
  if (bytes < 999_950_000) return `${tenth.format(bytes / 1e6)} MB`;
  return `${tenth.format(bytes / 1e9)} GB`;
}

/** A duration for a countdown. */
export function wait(ms) {
  const s = Math.max(0, ms) / 1000;
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  if (s < 60) return `${tenth.format(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${two((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

/** A duration in its coarsest unit. */
export function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 90) return `${s} s`;
  if (s < 90 * 60) return `${Math.round(s / 60)} min`;
  if (s < 36 * 3600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86_400)} d`;
}

/** The length of a window for an axis: 60 s, 90 s, 1 h. */
export function windowLength(us) {
  const units = [[86_400e6, "d"], [3600e6, "h"], [60e6, "min"], [1e6, "s"], [1e3, "ms"]];
  const [unit, name] = units.find(([unit]) => us >= unit && Number.isInteger((us / unit) * 4)) ?? [1, "µs"];
  return `${+(us / unit).toFixed(2)} ${name}`;
}

export const clockTime = (ms) => clock.format(ms);
export const minuteTime = (ms) => minute.format(ms);
export const fullTime = (ms) => moment.format(ms);

/** Parses a limit. Returns its maximum and its window in microseconds, or null. */
export function parseLimit(text) {
  const match = /^\s*([\d_]+)\s*\/\s*((?:\d+(?:us|ms|s|m|h|d|w))+|us|ms|s|m|h|d|w)\s*$/.exec(text);
  if (!match) return null;
  const unit = { us: 1, ms: 1e3, s: 1e6, m: 60e6, h: 3600e6, d: 86_400e6, w: 604_800e6 };
  let window = 0;
  for (const [, n, u] of match[2].matchAll(/(\d*)(us|ms|s|m|h|d|w)/g)) window += (n === "" ? 1 : +n) * unit[u];
  const max = +match[1].replaceAll("_", "");
  return max > 0 && window > 0 ? { max, window } : null;
}

/** Outcomes in stacking order: admitted requests are at the bottom. */
export const OUTCOMES = [
  { id: "allowed", name: "allowed", meaning: "allowed" },
  { id: "shadow", name: "would be denied", meaning: "allowed: beyond the limit of a shadow policy, which denies nothing" },
  { id: "limited", name: "limited", meaning: "denied: beyond the limit" },
  { id: "impossible", name: "impossible", meaning: "denied: the cost is higher than the limit ever allows" },
  { id: "store_unavailable", name: "store unavailable", meaning: "denied: the store did not answer" },
  { id: "banned", name: "banned", meaning: "denied: the key has a ban" },
];

const DENIED = ["limited", "impossible", "store_unavailable", "banned"];

/** The outcomes beyond the limit: denials, or would-be denials of a shadow policy. */
export const beyondLimit = (isShadow) => (isShadow ? ["shadow"] : DENIED);

/** Returns the number of decisions, how many were denied, and their share. */
export function decisionsOf(counts, isShadow = false) {
  const sum = (outcomes) => outcomes.reduce((sum, id) => sum + (counts[id] ?? 0), 0);
  const [all, denied] = [sum(OUTCOMES.map(({ id }) => id)), sum(beyondLimit(isShadow))];
  return { all, denied, share: all === 0 ? 0 : denied / all };
}

/** Descriptions of the lines that are not policies. */
export const WITHOUT_POLICY = new Map([
  ["(limits)", "limits supplied by callers"],
  ["CL.THROTTLE", "limits of the redis-cell command"],
  ["(deny)", "denied by a rule"],
  ["(others)", "policies with fewer decisions"],
]);

export const ALGORITHMS = [
  ["sliding_log", "never more than the limit in any window"],
  ["sliding_counter", "an estimate from two counters"],
  ["sliding_buckets:10", "never more than the limit; units count a little longer"],
  ["fixed_window", "the baseline: up to twice the limit across a boundary"],
  ["gcra", "the whole limit at once, then an even rate"],
];

/** The sign, the name and the tone of each kind of event. */
export const EVENTS = {
  started: ["●", "started", "calm"],
  reload: ["↻", "reload", "good"],
  reload_refused: ["▲", "reload refused", "bad"],
  store_lost: ["■", "store lost", "bad"],
  store_back: ["✓", "store back", "good"],
  no_room: ["▲", "store full", "warn"],
  degraded: ["▲", "degraded", "bad"],
  recovered: ["✓", "recovered", "good"],
  reset: ["○", "reset", "calm"],
  override: ["◆", "other limits", "calm"],
  ban: ["◆", "ban", "calm"],
  exemption: ["◆", "exemption", "calm"],
  lift: ["◇", "removal", "calm"],
};

/** The names of the kinds of overrides. */
export const OVERRIDES = { limits: "other limits", ban: "ban", exempt: "exemption" };

export function overrideText(override) {
  const { kind, limits, algorithm } = override;
  if (kind === "limits") return `other limits: ${limits.map(visible).join(" and ")}${algorithm ? ` by ${visible(algorithm)}` : ""}`;
  return { ban: "ban: every request is denied", exempt: "exemption: no request is denied" }[kind] ?? visible(kind);
}

/** Why the last request of a key was denied. */
export function causeText({ reason, limit }) {
  return {
    limited: `limit ${visible(limit)}`,
    impossible: `cost above ${visible(limit)}`,
    store_unavailable: "the store does not answer",
    banned: "ban",
    shadow: `limit ${visible(limit)}`,
  }[reason] ?? visible(reason ?? "–");
}

/** Whether at least four fifths of the capacity are in use. */
export const isNearLimit = (used, capacity) => used * 5 >= capacity * 4;

export const untilText = (ms) => ((ms ?? null) === null ? "permanently" : `until ${fullTime(ms)}`);
