// One lane for each algorithm on one time axis: admitted marks above the line, denied marks below it.
// .lane[data-algorithm="NAME"] with data-figure="admitted|denied|maximum" inside.

import { h, svg, set, setText, followWidth, px } from "./dom.js";
import { count, windowLength } from "./format.js";

const HEIGHT = 80;
const MIDDLE = 44;
const SIDE = 6;
const WINDOWS = 3;
const SHORTEST_US = 3e6;
const KEPT = 6000;
const UNIT = 5;

/** Returns the maximum number of `times` (sorted) in any window. */
function maximumInAnyWindow(times, window) {
  let maximum = 0;
  let from = 0;
  for (let to = 0; to < times.length; to++) {
    while (times[to] - times[from] >= window) from++;
    maximum = Math.max(maximum, to - from + 1);
  }
  return maximum;
}

function keepSorted(times, at) {
  let i = times.length;
  while (i > 0 && times[i - 1] > at) i--;
  times.splice(i, 0, at);
  if (times.length > KEPT) times.shift();
}

export function lane(algorithm, remark, { max, window }) {
  const admitted = [];
  const denied = [];
  const totals = { admitted: 0, denied: 0, maximum: 0 };
  let isNew = true;
  let width = 600;

  const edges = svg("path", { class: "edges" });
  const up = svg("path", { class: "admitted" });
  const down = svg("path", { class: "denied" });
  const edge = svg("line", { class: "now", y1: 2, y2: HEIGHT - 2 });
  const floor = svg("line", { class: "floor", x1: 0, x2: "100%", y1: MIDDLE, y2: MIDDLE });
  const image = svg("svg", { role: "img", "aria-label": "", height: HEIGHT, class: "lane-image" }, edges, floor, up, down, edge);
  const figures = Object.fromEntries(["admitted", "denied", "maximum"].map((name) => [name, h("b", { "data-figure": name, "data-value": 0 }, "0")]));
  const comparison = h("span", { class: "comparison" });
  const drawing = h("div", { class: "drawing" }, image);
  const element = h("section", { class: "lane", "data-algorithm": algorithm, "aria-label": algorithm },
    h("div", { class: "lane-head" }, h("h2", {}, algorithm), h("p", { class: "soft small" }, remark)),
    drawing,
    h("p", { class: "lane-figures" },
      h("span", { class: "up" }, h("i", { "aria-hidden": "true" }, "▲"), " admitted ", figures.admitted),
      h("span", { class: "down" }, h("i", { "aria-hidden": "true" }, "▼"), " denied ", figures.denied),
      h("span", {}, `maximum in any ${windowLength(window)} `, figures.maximum), comparison));

  followWidth(drawing, image, HEIGHT, (fresh) => (width = fresh));

  function marks(times, from, perUs, direction) {
    const room = direction < 0 ? MIDDLE - 4 : HEIGHT - MIDDLE - 4;
    const stacks = new Map();
    for (let i = times.length - 1; i >= 0 && times[i] >= from; i--) {
      const column = Math.round(((times[i] - from) * perUs) / UNIT);
      stacks.set(column, (stacks.get(column) ?? 0) + 1);
    }
    const tallest = Math.max(1, ...stacks.values());
    const step = Math.min(UNIT, room / tallest);
    let path = "";
    for (const [column, n] of stacks) {
      const x = SIDE + column * UNIT;
      // Marks one above the other while they can be distinguished, otherwise one column.
      if (step < 2.4) path += `M${px(x - 2)} ${px(MIDDLE + direction)}h4v${px(direction * n * step)}h-4z`;
      else for (let k = 0; k < n; k++) path += `M${px(x - 2)} ${px(MIDDLE + direction * (1 + k * step))}h4v${px(direction * (step - 1))}h-4z`;
    }
    return path;
  }

  return {
    element,
    add(isAdmitted, atUs) {
      keepSorted(isAdmitted ? admitted : denied, atUs);
      totals[isAdmitted ? "admitted" : "denied"]++;
      isNew = true;
    },
    frame(nowUs) {
      const shown = Math.max(SHORTEST_US, WINDOWS * window);
      const perUs = (width - 2 * SIDE - 10) / shown;
      // Only whole columns, so that marks keep their relative positions while they move.
      const grain = UNIT / perUs;
      const from = Math.floor((nowUs - shown) / grain) * grain;
      const slide = -((nowUs - shown - from) * perUs);
      const transform = `translate(${px(slide)} 0)`;
      let lines = "";
      for (let t = Math.ceil(from / window) * window; t <= nowUs; t += window) lines += `M${px(SIDE + (t - from) * perUs)} 2V${HEIGHT - 2}`;
      set(edges, { transform, d: lines });
      set(up, { transform, d: marks(admitted, from, perUs, -1) });
      set(down, { transform, d: marks(denied, from, perUs, 1) });
      set(edge, { x1: width - SIDE - 10, x2: width - SIDE - 10 });
      if (isNew) this.showTotals();
    },
    /** Shows the totals. Returns the maximum number of admitted requests in any window. */
    showTotals() {
      isNew = false;
      totals.maximum = Math.max(totals.maximum, maximumInAnyWindow(admitted, window));
      for (const [name, element] of Object.entries(figures)) {
        setText(element, count(totals[name]));
        set(element, { "data-value": totals[name] });
      }
      const over = totals.maximum - max;
      setText(comparison, over > 0 ? `▲ ${count(over)} over the limit` : totals.admitted > 0 ? "✓ within the limit" : "");
      set(comparison, { "data-tone": over > 0 ? "bad" : "good" });
      set(image, { "aria-label": `${algorithm}: ${count(totals.admitted)} admitted, ${count(totals.denied)} denied, at most ${count(totals.maximum)} admitted in any window; the limit is ${count(max)}.` });
      return totals.maximum;
    },
  };
}
