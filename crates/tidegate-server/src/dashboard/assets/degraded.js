// The banner of degraded states: #degraded has a line for each state, [data-cause="CAUSE"], with the cause, the start and the cure.

import { h, say, attribute, rows } from "./dom.js";
import { span, visible } from "./words.js";

const list = document.getElementById("degraded");

const key = ({ cause, node }) => `${cause} ${node ?? ""}`;

const line = () => h("p", {}, h("b", { "aria-hidden": "true" }, "▲"), h("strong"), h("span", { "aria-hidden": "true", class: "since" }), h("span"), h("span", { class: "cure" }));

/** Shows the states that last; none hides the banner. */
export function showDegraded(states, nowMs) {
  rows(list, states ?? [], key, line, (row, { cause, node, since_ms, detail, cure }) => {
    attribute(row, "data-cause", cause);
    say(row.children[1], `Degraded: ${visible(cause)}${node ? ` at ${visible(node)}` : ""}`);
    say(row.children[2], `for ${span(Math.max(0, nowMs - since_ms))}`);
    say(row.children[3], visible(detail));
    say(row.children[4], `What to do: ${visible(cure)}.`);
  });
}
