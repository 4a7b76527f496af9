// Elements that several views share: a figure with its name, a bar with its share, a relative time.
// figure: data-figure="NAME" data-value=RAW data-tone="good|warn|bad" on the element that shows the value.

import { h, setText, attribute } from "./dom.js";
import { span, fullTime } from "./format.js";

export function figure(name, label) {
  const value = h("dd", { class: "value", "data-figure": name }, "–");
  const more = h("dd", { class: "more" });
  const element = h("div", { class: "tile" }, h("dt", {}, label), value, more);
  element.value = value;
  element.more = more;
  return element;
}

export function setFigure(tile, text, raw, more, tone) {
  setText(tile.value, text);
  attribute(tile.value, "data-value", raw ?? "");
  attribute(tile.value, "data-tone", tone);
  if (more !== undefined) setText(tile.more, more ?? "");
}

/** Draws a share as a bar with its number. */
export function bar() {
  const inner = h("i");
  const text = h("b", { "data-figure": "denied_share" });
  const note = h("span", { class: "soft small" });
  const element = h("div", { class: "bar" }, h("span", { class: "track", "aria-hidden": "true" }, inner), text, note);
  element.show = (part, label, tone, remark = "") => {
    inner.style.setProperty("inline-size", `${Math.min(100, part > 0 ? Math.max(2, part * 100) : 0)}%`);
    attribute(element, "data-tone", part > 0 ? tone : "none");
    attribute(text, "data-value", part);
    setText(text, label);
    setText(note, remark);
  };
  return element;
}

const relativeTimes = new Set();
let skew = 0;

const agoText = (ms) => `${span(Date.now() + skew - ms)} ago`;

/** Shows a time as "3 s ago" and updates it every second. */
export function ago(ms) {
  const element = h("time", { datetime: new Date(ms).toISOString(), title: fullTime(ms) });
  element.at = ms;
  relativeTimes.add(element);
  setText(element, agoText(ms));
  return element;
}

/** Sets the difference between the clock of the service and the clock of the browser. */
export function setServiceTime(nowMs) {
  skew = nowMs - Date.now();
}

setInterval(() => {
  for (const element of relativeTimes) {
    if (element.isConnected) setText(element, agoText(element.at));
    else relativeTimes.delete(element);
  }
}, 1000);
