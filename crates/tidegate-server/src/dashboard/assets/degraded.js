// The banner of degraded states: #degraded has a line for each state, [data-cause="CAUSE"], with the cause, the start and the cure.

import { h, setText, attribute, rows } from "./dom.js";
import { span, visible } from "./format.js";

const list = document.getElementById("degraded");

const key = ({ cause, node }) => `${cause} ${node ?? ""}`;

const line = () => h("p", {}, h("b", { "aria-hidden": "true" }, "▲"), h("strong"), h("span", { "aria-hidden": "true", class: "since" }), h("span"), h("span", { class: "cure" }));

/** Shows the current states. An empty list hides the banner. */
export function showDegraded(states, nowMs) {
  rows(list, states ?? [], key, line, (row, { cause, node, since_ms, detail, cure }) => {
    attribute(row, "data-cause", cause);
    setText(row.children[1], `Degraded: ${visible(cause)}${node ? ` at ${visible(node)}` : ""}`);
    setText(row.children[2], `for ${span(Math.max(0, nowMs - since_ms))}`);
    setText(row.children[3], visible(detail));
    setText(row.children[4], `What to do: ${visible(cure)}.`);
  });
}
