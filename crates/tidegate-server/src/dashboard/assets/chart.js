// Charts of the last minutes: stacked steps or lines, a legend with the values, and a table.
// data-chart="NAME" on the figure, data-series="ID" data-value=… on each legend entry.

import { h, svg, set, setText, rows, freshId, followWidth, foldedTable, px, table } from "./dom.js";
import { clockTime, minuteTime } from "./format.js";

const LEFT = 58;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 22;
const LEGEND_POINTS = 10;
const TABLE_ROWS = 30;

/** Returns the end of an axis that starts at zero, and the step between its marks. */
function niceScale(maximum, marks = 4) {
  if (!(maximum > 0)) return { end: 1, step: 1 };
  const rough = maximum / marks;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999);
  return { end: Math.ceil((maximum / step) * 0.999) * step, step };
}

function stepsBetween(lower, upper, x, y) {
  let there = "";
  let back = "";
  for (let i = 0; i < upper.length; i++) {
    const top = px(y(upper[i]));
    there += i === 0 ? `M${px(x(0))} ${top}H${px(x(1))}` : `V${top}H${px(x(i + 1))}`;
    back = `V${px(y(lower[i]))}H${px(x(i))}` + back;
  }
  return upper.length === 0 ? "" : `${there}${back}Z`;
}

function lineThrough(values, x, y) {
  let path = "";
  let pen = "M";
  values.forEach((value, i) => {
    if (value === null || value === undefined) {
      pen = "M";
    } else {
      path += `${pen}${px(x(i + 0.5))} ${px(y(value))}`;
      pen = "L";
    }
  });
  return path;
}

const mean = (values) => {
  const known = values.filter((value) => value !== null && value !== undefined);
  return known.length === 0 ? null : known.reduce((a, b) => a + b, 0) / known.length;
};

/**
 * `series`: [{id, name, meaning}], drawn in that order; `kind`: "stack" or "lines"; `format` writes a value, `axis` one on the axis.
 * `tool`: a control next to the title. `average`: the number of values whose mean the legend and each row of the table show.
 * `draw({from_ms, step_ms, values: {id: […]}, summary})` draws; a series without values is left out.
 */
export function chart({ name, title, unit, kind, series, format, axis = format, height = 190, whole = false, tool = null, average = LEGEND_POINTS, rowText = "mean of ten seconds each" }) {
  let data = null;
  let width = 0;
  let cursor = null;

  const grid = svg("g", { class: "grid" });
  const shapes = svg("g", { class: kind });
  const mark = svg("line", { class: "cursor", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
  const image = svg("svg", { role: "img", "aria-label": title, height }, grid, shapes, mark);
  // Would-be denials of a shadow policy are hatched.
  const hatch = freshId("hatch");
  if (kind === "stack") image.prepend(svg("defs", {}, svg("pattern", { id: hatch, class: "shadow", width: 4, height: 4, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { class: "hatch-ground", width: 4, height: 4 }), svg("rect", { class: "hatch-line", width: 2, height: 4 }))));
  const paths = new Map(series.map(({ id }) => [id, svg("path", { class: `series ${id}`, fill: id === "shadow" ? `url(#${hatch})` : null })]));
  shapes.append(...paths.values());

  const legend = h("ul", { class: "legend" });
  const when = h("span", { class: "when" });
  const spoken = h("span", { class: "unseen", "aria-live": "polite" });
  const hintId = freshId("hint");
  const plot = h("div", {
    class: "plot", tabindex: 0, role: "group", "aria-label": `${title}: values`, "aria-describedby": hintId,
    pointermove: (event) => point(event.clientX - plot.getBoundingClientRect().left),
    pointerleave: () => setCursor(null),
    blur: () => setCursor(null),
    keydown: onKey,
  }, image, h("span", { class: "unseen", id: hintId }, "Press the left or the right arrow key to read the values of a second."), spoken);

  const figures = h("table");
  const folded = foldedTable(`${title}, table`, () => data && tabulate(), figures);

  const caption = h("span", { class: "title" }, title);
  const element = h("figure", { class: "chart", "data-chart": name },
    h("figcaption", {}, caption, h("span", { class: "unit" }, unit), when, tool), legend, plot, folded);

  followWidth(plot, image, height, (fresh) => {
    width = fresh;
    paint();
  });

  const shown = () => series.filter(({ id }) => data.values[id]);
  const length = () => Object.values(data.values)[0].length;
  const x = (i) => LEFT + (i / length()) * (width - LEFT - RIGHT);

  function point(at) {
    if (!data) return;
    const i = Math.floor(((at - LEFT) / (width - LEFT - RIGHT)) * length());
    setCursor(i >= 0 && i < length() ? i : null);
  }

  function onKey(event) {
    if (!data) return;
    const last = length() - 1;
    const from = cursor ?? last + 1;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, PageUp: from - 10, PageDown: from + 10, Home: 0, End: last }[event.key];
    if (event.key === "Escape") return setCursor(null);
    if (to === undefined) return;
    event.preventDefault();
    setCursor(Math.max(0, Math.min(last, to)));
    setText(spoken, `${timeAt(cursor)}: ${shown().map(({ id, name }) => `${name} ${format(data.values[id][cursor])}`).join(", ")}`);
  }

  const timeAt = (i) => clockTime(data.from_ms + i * data.step_ms);

  function setCursor(i) {
    cursor = i;
    if (!data) return;
    const at = i === null ? null : px(x(i + 0.5));
    set(mark, { visibility: at === null ? "hidden" : "visible", x1: at, x2: at });
    setText(when, i === null ? "latest" : timeAt(i));
    drawLegend();
  }

  function drawLegend() {
    rows(legend, shown(), ({ id }) => id,
      ({ id, name, meaning }) => h("li", { class: id, "data-series": id, title: meaning },
        h("i", { class: "swatch", "aria-hidden": "true" }), h("span", {}, name), h("b")),
      (row, { id }) => {
        const values = data.values[id];
        const value = cursor === null ? mean(values.slice(-average)) : values[cursor];
        setText(row.lastChild, value === null || value === undefined ? "–" : format(value));
        set(row, { "data-value": value ?? "" });
      });
  }

  function paint() {
    if (!data || width === 0) return;
    const drawn = shown();
    const sums = Array(length()).fill(0);
    const layers = drawn.map(({ id }) => {
      const lower = sums.slice();
      data.values[id].forEach((value, i) => (sums[i] += value ?? 0));
      return { id, lower, upper: sums.slice() };
    });
    const maximum = kind === "stack" ? Math.max(0, ...sums)
      : Math.max(0, ...drawn.flatMap(({ id }) => data.values[id].map((value) => value ?? 0)));
    const scale = niceScale(whole ? Math.max(maximum, 4) : maximum);
    const y = (value) => height - BOTTOM - (value / scale.end) * (height - BOTTOM - TOP);
    for (const [id, path] of paths) {
      const layer = layers.find((layer) => layer.id === id);
      set(path, { d: !layer ? "" : kind === "stack" ? stepsBetween(layer.lower, layer.upper, x, y) : lineThrough(data.values[id], x, y) });
    }
    drawAxes(scale, y);
  }

  function drawAxes(scale, y) {
    const bottom = height - BOTTOM;
    const everyMs = width < 520 ? 120_000 : 60_000;
    const marks = [];
    for (let value = 0; value <= scale.end * 1.001; value += scale.step) {
      marks.push({ id: `y${value}`, line: [LEFT, width - RIGHT, y(value), y(value)], text: axis(value), at: [LEFT - 7, y(value) + 4], anchor: "end" });
    }
    for (let t = Math.ceil(data.from_ms / everyMs) * everyMs; t < data.from_ms + length() * data.step_ms; t += everyMs) {
      const at = x((t - data.from_ms) / data.step_ms);
      marks.push({ id: `x${t}`, line: [at, at, bottom, bottom + 4], text: at < width - 18 ? minuteTime(t) : "", at: [at, height - 5], anchor: "middle" });
    }
    rows(grid, marks, ({ id }) => id, () => svg("g", {}, svg("line"), svg("text")), ({ firstChild, lastChild }, { line, text, at, anchor }) => {
      const [x1, x2, y1, y2] = line.map(px);
      set(firstChild, { x1, x2, y1, y2 });
      set(lastChild, { x: px(at[0]), y: px(at[1]), "text-anchor": anchor });
      setText(lastChild, text);
    });
  }

  function tabulate() {
    if (!folded.open) return;
    const drawn = shown();
    const lines = [];
    for (let to = length(); to > 0 && lines.length < TABLE_ROWS; to -= average) {
      const from = Math.max(0, to - average);
      const means = drawn.map(({ id }) => mean(data.values[id].slice(from, to)));
      lines.push(h("tr", {}, h("th", { scope: "row" }, timeAt(from)), means.map((value) => h("td", { class: "n" }, value === null ? "–" : format(value)))));
    }
    const columns = ["from", ...drawn.map(({ name }) => [name, "n"])];
    figures.replaceChildren(...table({}, h("caption", {}, `${title}: ${unit}, ${rowText}`), columns, h("tbody", {}, lines)).childNodes);
  }

  return {
    element,
    setTitle: (text) => setText(caption, text),
    draw(fresh) {
      data = fresh;
      set(image, { "aria-label": fresh.summary });
      paint();
      setCursor(cursor !== null && cursor < length() ? cursor : null);
    },
  };
}

/** A small picture of denials over the last minutes, for a row of a table. */
export function sparkline() {
  const width = 120;
  const height = 22;
  const bars = svg("path", { class: "bars" });
  const image = svg("svg", { class: "spark", role: "img", "aria-label": "", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" },
    svg("line", { class: "base", x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }), bars);
  return {
    element: image,
    draw(values, summary) {
      const slots = 60;
      const sums = Array(slots).fill(0);
      values.forEach((value, i) => (sums[Math.min(slots - 1, Math.floor((i / values.length) * slots))] += value));
      const maximum = Math.max(1, ...sums);
      const path = sums.map((sum, i) => {
        const tall = sum === 0 ? 0 : Math.max(2, (sum / maximum) * (height - 2));
        return sum === 0 ? "" : `M${i * 2} ${height}v${px(-tall)}h1.6v${px(tall)}z`;
      });
      set(bars, { d: path.join("") });
      set(image, { "aria-label": summary });
    },
  };
}
