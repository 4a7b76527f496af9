// Creates and updates elements. Text is always inserted as text, so a key cannot become markup.
// keyElement: <bdi class="key"> with the whole key in its title.
// figure: data-figure="NAME" data-value=RAW data-tone="good|warn|bad" on the element that shows the value.

import { fullTime, span, visible } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else set(element, { [name]: value === true ? "" : value });
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Creates an element. A function in `props` listens to the event with its name; any other value is an attribute. */
export const h = (tag, props = {}, ...children) => fill(document.createElement(tag), props, children);

export const svg = (tag, props = {}, ...children) => fill(document.createElementNS(SVG, tag), props, children);

/** Sets the text if it differs, so that selections and screen readers are not disturbed. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets attributes that differ. Null, undefined and false remove an attribute. */
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
}

/** Updates the children of `parent` to match `list`. A child keeps its element as long as its id stays the same. */
export function rows(parent, list, idOf, make, update) {
  const known = (parent.known ??= new Map());
  const kept = new Set();
  let at = parent.firstElementChild;
  list.forEach((item, index) => {
    let id = String(idOf(item, index));
    while (kept.has(id)) id += "\u0000";
    kept.add(id);
    let row = known.get(id);
    if (!row) {
      row = make(item, index);
      known.set(id, row);
    }
    if (row !== at) parent.insertBefore(row, at);
    else at = at.nextElementSibling;
    update?.(row, item);
  });
  for (const [id, row] of known) {
    if (kept.has(id)) continue;
    row.remove();
    known.delete(id);
  }
}

export function keyElement(label) {
  const text = visible(label);
  return h("bdi", { class: "key", title: text.length > 40 ? text.slice(0, 2000) : null }, text === "" ? "(empty)" : text);
}

export const policyLink = (policy) => h("a", { href: `#/policy/${encodeURIComponent(policy)}` }, visible(policy));

let numbered = 0;
export const freshId = (stem) => `${stem}-${++numbered}`;

export const button = (text, click, props) => h("button", { type: "button", click, ...props }, text);

/** Creates a field with a label, a control and a hint. */
export function field(label, control, hint) {
  control.id ||= freshId("field");
  const notes = hint ? h("span", { class: "hint", id: `${control.id}-hint` }, hint) : null;
  set(control, { "aria-describedby": notes?.id });
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, notes);
}

export const option = (value, text = value) => h("option", { value }, visible(text));

/** Offers `values` in a select. A chosen value stays chosen while it is offered; otherwise `preferred` is chosen. */
export function offer(select, values, preferred, textOf) {
  const offered = values.join("\n");
  if (select.dataset.offered === offered) return;
  const chosen = values.includes(select.value) ? select.value : preferred;
  select.dataset.offered = offered;
  select.replaceChildren(...values.map((value) => option(value, textOf?.(value))));
  if (values.includes(chosen)) select.value = chosen;
}

/** Creates a section with a heading. */
export function panel(title, ...children) {
  const id = freshId("heading");
  return h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), children);
}

/** Creates a table. A column is its name, or its name and its class. */
export function table(props, caption, columns, body) {
  const head = columns.map((column) => {
    const [name, className] = [column].flat();
    return h("th", { scope: "col", class: className }, name);
  });
  return h("table", props, caption, h("thead", {}, h("tr", {}, head)), body);
}

export const hiddenCaption = (text) => h("caption", { class: "unseen" }, text);

/** Creates a table that is folded in. `toggle` is called when it is opened or closed. */
export const foldedTable = (label, toggle, table) => h("details", { class: "figures", toggle },
  h("summary", {}, "as a table"), h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label }, table));

export function figure(name, label) {
  const value = h("dd", { class: "value", "data-figure": name }, "–");
  const more = h("dd", { class: "more" });
  return Object.assign(h("div", { class: "tile" }, h("dt", {}, label), value, more), { value, more });
}

export function setFigure(tile, text, raw, more, tone) {
  setText(tile.value, text);
  set(tile.value, { "data-value": raw ?? "", "data-tone": tone });
  setText(tile.more, more ?? "");
}

/** Creates a bar with the number that it shows. */
export function bar(name) {
  const inner = h("i");
  const number = h("b", { "data-figure": name });
  const note = h("span", { class: "soft small" });
  const element = h("div", { class: "bar" }, h("span", { class: "track", "aria-hidden": "true" }, inner), number, note);
  element.show = (part, value, text, tone, remark = "", title = null) => {
    inner.style.setProperty("inline-size", `${Math.min(100, part > 0 ? Math.max(2, part * 100) : 0)}%`);
    set(element, { "data-tone": part > 0 ? tone : "none" });
    set(number, { "data-value": value, title });
    setText(number, text);
    setText(note, remark);
  };
  return element;
}

const relativeTimes = new Set();
let skew = 0;

const agoText = (ms) => `${span(Date.now() + skew - ms)} ago`;

/** Shows a time as "3 s ago" and updates it every second. */
export function ago(ms) {
  const element = h("time", { datetime: new Date(ms).toISOString(), title: fullTime(ms) }, agoText(ms));
  element.at = ms;
  relativeTimes.add(element);
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

/** Calls `frame` thirty times a second, or once a second for users who prefer reduced motion. Returns a function that ends it. */
export function animate(frame) {
  let lastMs = 0;
  let request = requestAnimationFrame(function loop(nowMs) {
    request = requestAnimationFrame(loop);
    if (nowMs - lastMs < (reducedMotion.matches ? 1000 : 30)) return;
    lastMs = nowMs;
    frame();
  });
  return () => cancelAnimationFrame(request);
}

/** Keeps an image as wide as its container, and calls `changed` with each new width. */
export function followWidth(container, image, height, changed) {
  let width = 0;
  new ResizeObserver(([entry]) => {
    const fresh = Math.round(entry.contentRect.width);
    if (fresh === width || fresh === 0) return;
    width = fresh;
    set(image, { width, viewBox: `0 0 ${width} ${height}` });
    changed(width);
  }).observe(container);
}

/** A coordinate in an image. */
export const px = (n) => n.toFixed(1);
