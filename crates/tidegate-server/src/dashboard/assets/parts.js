// Small pieces several views are made of: a figure with its name, a bar with its share, "3 s ago".
// figure: data-figure="NAME" data-value=RAW data-tone="good|warn|bad" on the element that shows the value.

import { h, say, attribute } from "./dom.js";
import { span, fullTime } from "./words.js";

export function figure(name, label) {
  const value = h("dd", { class: "value", "data-figure": name }, "–");
  const more = h("dd", { class: "more" });
  const element = h("div", { class: "tile" }, h("dt", {}, label), value, more);
  element.value = value;
  element.more = more;
  return element;
}

export function setFigure(tile, text, raw, more, tone) {
  say(tile.value, text);
  attribute(tile.value, "data-value", raw ?? "");
  attribute(tile.value, "data-tone", tone);
  if (more !== undefined) say(tile.more, more ?? "");
}

/** A share drawn as a bar with the number beside it. */
export function bar() {
  const inner = h("i");
  const text = h("b", { "data-figure": "denied_share" });
  const note = h("span", { class: "soft small" });
  const element = h("div", { class: "bar" }, h("span", { class: "track", "aria-hidden": "true" }, inner), text, note);
  element.show = (part, words, tone, remark = "") => {
    inner.style.setProperty("inline-size", `${Math.min(100, part > 0 ? Math.max(2, part * 100) : 0)}%`);
    attribute(element, "data-tone", part > 0 ? tone : "none");
    attribute(text, "data-value", part);
    say(text, words);
    say(note, remark);
  };
  return element;
}

const told = new Set();
let skew = 0;

const agoWords = (ms) => `${span(Date.now() + skew - ms)} ago`;

/** A time as "3 s ago", kept true. */
export function ago(ms) {
  const element = h("time", { datetime: new Date(ms).toISOString(), title: fullTime(ms) });
  element.at = ms;
  told.add(element);
  say(element, agoWords(ms));
  return element;
}

/** Times are the service's: what its clock is ahead of ours. */
export function serviceTime(nowMs) {
  skew = nowMs - Date.now();
}

setInterval(() => {
  for (const element of told) {
    if (element.isConnected) say(element, agoWords(element.at));
    else told.delete(element);
  }
}, 1000);
