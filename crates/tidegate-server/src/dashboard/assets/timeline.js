// A limit's window drawn to scale, moving with the clock: data-drawing="sliding_log|sliding_counter|sliding_buckets|
// fixed_window|gcra", role=img, the summary of it in aria-label.

import { h, svg, set, setText, rows, freshId, followWidth, px } from "./dom.js";
import { countsFrom, debtAt, fullDebt, kindOf, usedAt, windowStart } from "./meter.js";
import { clockTime, count, plural, span, wait, windowLength } from "./format.js";

const HEIGHT = 116;
const TOP = 16;
const FLOOR = 92;
const SIDE = 10;

/** The number of windows shown before and after now. */
function reach(kind, buckets) {
  if (kind === "sliding_counter") return [2.03, 1.03];
  if (kind === "sliding_buckets") return [1 + 1.4 / buckets, 0.06 + 1 / buckets];
  return [1.16, 0.05];
}

export function timeline(first, algorithm) {
  const kind = kindOf(algorithm);
  let limit = first;
  let receivedUs = 0;
  let width = 640;
  let lastNow = 0;
  // Entries that left the window since the view was opened. They are drawn as long as they are inside the image.
  let left = [];

  const clip = freshId("band");
  const shapes = svg("path", { class: "gone" });
  const counted = svg("path", { class: "held" });
  const moving = svg("g", {}, shapes);
  const movingIn = svg("g", {}, counted);
  const clipRect = svg("rect", { y: 0, height: HEIGHT });
  const band = svg("rect", { class: "band", y: TOP - 6, height: FLOOR - TOP + 6 });
  const edge = svg("line", { class: "now", y1: TOP - 10, y2: FLOOR });
  const capLine = svg("line", { class: "cap" });
  const capText = svg("text", { class: "cap-text", x: SIDE + 6, y: TOP - 4 });
  const labels = svg("g", { class: "labels" });
  const image = svg("svg", { class: "timeline", role: "img", "aria-label": "", height: HEIGHT, "data-drawing": kind },
    svg("defs", {}, svg("clipPath", { id: clip }, clipRect)),
    band, moving, svg("g", { "clip-path": `url(#${clip})` }, movingIn),
    svg("line", { class: "floor", x1: SIDE, x2: "100%", y1: FLOOR, y2: FLOOR }), capLine, edge, capText, labels);
  const element = h("div", { class: "drawing" }, image);

  followWidth(element, image, HEIGHT, (fresh) => {
    width = fresh;
    layOut();
    frame(lastNow);
  });

  // The start and the end of the image, in microseconds relative to `now`.
  function view(nowUs) {
    const { window_us: window } = limit;
    if (kind === "fixed_window") {
      const start = windowStart(limit, nowUs);
      return [start - 0.04 * window - nowUs, start + 1.04 * window - nowUs];
    }
    if (kind === "gcra") return [0, fullDebt(limit) * 1.08];
    const [back, ahead] = reach(kind, limit.buckets);
    return [-back * window, ahead * window];
  }

  const scale = ([from, to]) => (width - 2 * SIDE) / (to - from);
  const maximum = () => Math.max(limit.capacity, ...limit.entries.map(({ units }) => units));
  const tall = (units) => (FLOOR - TOP) * (units / maximum());

  function layOut() {
    const perUs = scale(view(receivedUs));
    let path = "";
    if (kind === "sliding_log") {
      const largest = Math.max(1, ...limit.entries.map(({ units }) => units));
      for (const { last_us: at, units } of [...left, ...limit.entries]) {
        const x = px((at - receivedUs) * perUs);
        const top = FLOOR - (FLOOR - TOP) * (0.42 + 0.5 * (units / largest));
        path += `M${x} ${FLOOR}V${px(top)}m-2.2 0a2.2 2.2 0 1 0 4.4 0a2.2 2.2 0 1 0 -4.4 0`;
      }
    } else if (kind !== "gcra") {
      const gap = kind === "sliding_buckets" ? 1 : 2;
      for (const { first_us: from, last_us: to, units } of limit.entries) {
        const wide = Math.max(1, (to + 1 - from) * perUs - gap);
        path += `M${px((from - receivedUs) * perUs)} ${FLOOR}v${px(-Math.max(units ? 2 : 0, tall(units)))}h${px(wide)}V${FLOOR}z`;
      }
    }
    set(shapes, { d: path });
    set(counted, { d: path });
    const hasCap = kind !== "sliding_log";
    set(image, { "data-shape": hasCap ? "blocks" : "marks" });
    const y = px(FLOOR - tall(limit.capacity));
    set(capLine, { x1: SIDE, x2: width - SIDE, y1: y, y2: y, visibility: hasCap ? "visible" : "hidden" });
    setText(capText, hasCap ? `limit ${count(limit.capacity)}` : "");
  }

  function drawLabels(nowUs, [from], perUs) {
    const { window_us: window } = limit;
    const marks = [];
    const many = width > 480;
    if (kind === "fixed_window") {
      const start = windowStart(limit, nowUs);
      marks.push([start - nowUs, clockTime(start / 1000)], [start + window - nowUs, clockTime((start + window) / 1000)]);
    } else if (kind === "gcra") {
      const full = fullDebt(limit);
      for (const part of many ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1]) marks.push([part * full, part === 0 ? "now" : `in ${wait((part * full) / 1000)}`]);
    } else {
      const parts = kind === "sliding_counter" ? [-2, -1, 0, 1] : many ? [-1, -0.75, -0.5, -0.25, 0] : [-1, -0.5, 0];
      for (const part of parts) marks.push([part * window, part === 0 ? "now" : `${part < 0 ? "−" : "+"}${windowLength(Math.abs(part) * window)}`]);
    }
    rows(labels, marks, (_, i) => i, () => svg("text", { y: HEIGHT - 7 }), (text, [us, label]) => {
      const at = SIDE + (us - from) * perUs;
      set(text, { "text-anchor": at < 60 ? "start" : at > width - 60 ? "end" : "middle", x: px(Math.max(SIDE, Math.min(width - SIDE, at))) });
      setText(text, label);
    });
  }

  function frame(nowUs) {
    lastNow = nowUs;
    const range = view(nowUs);
    const perUs = scale(range);
    const x = (us) => SIDE + (us - range[0]) * perUs;
    if (kind === "gcra") frameDebt(nowUs, x);
    else frameWindow(nowUs, perUs, x);
    set(edge, { x1: px(x(0)), x2: px(x(0)) });
    drawLabels(nowUs, range, perUs);
  }

  const setBand = (from, to) => set(band, { x: px(from), width: px(Math.max(0, to - from)) });
  const setClip = (from, to) => set(clipRect, { x: px(from), width: px(Math.max(0, to - from)) });

  function frameWindow(nowUs, perUs, x) {
    const transform = `translate(${(x(0) - (nowUs - receivedUs) * perUs).toFixed(2)} 0)`;
    set(moving, { transform });
    set(movingIn, { transform });
    const from = Math.max(SIDE, x(countsFrom(limit, algorithm, nowUs) - nowUs));
    setBand(from, kind === "fixed_window" ? x(windowStart(limit, nowUs) + limit.window_us - nowUs) : x(0));
    // The current block is drawn completely, because all of its units count.
    if (kind === "sliding_log") setClip(from - 0.5, x(0) + 2.5);
    else setClip(from, width - SIDE);
  }

  function frameDebt(nowUs, x) {
    const debt = debtAt(limit, nowUs, receivedUs);
    const full = fullDebt(limit);
    const top = FLOOR - (FLOOR - TOP) * Math.min(1, debt / full);
    set(counted, { d: `M${px(x(0))} ${FLOOR}V${px(top)}L${px(x(debt))} ${FLOOR}z` });
    setClip(0, width);
    setBand(x(0), x(full));
  }

  function summaryText(nowUs) {
    const used = usedAt(limit, algorithm, nowUs, receivedUs);
    const base = `${count(used)} of ${count(limit.capacity)} in use under ${limit.limit}`;
    if (kind === "gcra") return `${base}; the debt is gone in ${wait(debtAt(limit, nowUs, receivedUs) / 1000)}.`;
    if (limit.entries.length === 0) return `${base}.`;
    const oldest = span((nowUs - limit.entries[0].first_us) / 1000);
    return kind === "sliding_log" ? `${base}: ${plural(limit.entries.length, "admitted request")} drawn, the oldest ${oldest} ago.`
      : `${base}: ${plural(limit.entries.length, "block")} drawn, the oldest begins ${oldest} ago.`;
  }

  return {
    element,
    /** Sets the state that the service reported for `nowUs`. */
    update(fresh, nowUs) {
      if (kind === "sliding_log") {
        const end = nowUs - fresh.window_us;
        left = [...left, ...limit.entries.filter(({ last_us }) => last_us > receivedUs - fresh.window_us)]
          .filter(({ last_us }) => last_us <= end && last_us > end - 0.2 * fresh.window_us);
      }
      limit = fresh;
      receivedUs = nowUs;
      layOut();
      set(image, { "aria-label": summaryText(nowUs) });
      frame(nowUs);
    },
    frame,
  };
}
