// Creates elements. Text is always inserted as text, so a key cannot become markup.
// `keyElement` shows a key as <bdi class="key"> with the whole key in its title.

import { visible } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Creates an element. A function in `props` listens to the event with its name; any other value is an attribute. */
export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);

export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

/** Sets the text if it differs, so that selections and screen readers are not disturbed. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function attribute(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, value);
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
      row = make(item);
      known.set(id, row);
    }
    if (row !== at) parent.insertBefore(row, at);
    else at = at.nextElementSibling;
    update?.(row, item, index);
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

let numbered = 0;
export const freshId = (stem) => `${stem}-${++numbered}`;

/** Creates a field with a label, a control and a hint. */
export function field(label, control, hint) {
  control.id ||= freshId("field");
  const notes = hint ? h("span", { class: "hint", id: `${control.id}-hint` }, hint) : null;
  if (hint) control.setAttribute("aria-describedby", notes.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, notes);
}

export const option = (value, text = value) => h("option", { value }, visible(text));
