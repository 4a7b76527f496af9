// The banners. #banner shows that the page is not live. #degraded has a line for each degraded state, [data-cause="CAUSE"], with
// the cause, the start and the cure.

import { h, set, setText, rows } from "./dom.js";
import { span, visible } from "./format.js";

const RECONNECTED_MS = 4000;

const connection = document.getElementById("banner");
const degraded = document.getElementById("degraded");
let clearing = null;

function showLines(banner, lines) {
  // Screen readers do not get the third part, because a running count of seconds is noise.
  const line = () => h("p", {}, h("b", { "aria-hidden": "true" }), h("strong"), h("span", { "aria-hidden": "true", class: "since" }), h("span"));
  rows(banner, lines, ({ id }) => id, line, (row, { cause, parts }) => {
    set(row, { "data-cause": cause });
    parts.forEach((part, i) => setText(row.children[i], part));
  });
}

/** Shows the current states. An empty list hides the banner. */
export function showDegraded(states, nowMs) {
  showLines(degraded, states.map(({ cause, node, since_ms, detail, cure }) => {
    const title = `Degraded: ${visible(cause)}${node ? ` at ${visible(node)}` : ""}`;
    return { id: title, cause, parts: ["▲", title, `for ${span(nowMs - since_ms)}`, `${visible(detail)}. What to do: ${visible(cure)}.`] };
  }));
}

/** Shows that the page is not live, and why. */
export function showBroken(why, silentMs) {
  clearTimeout(clearing);
  const status = why?.status ?? 0;
  const error = why?.error ? `: ${visible(why.error)}` : "";
  const reason = status === 401 || status === 403 ? "The service requires a login. "
    : status === 503 ? `The service refuses the stream${error}. `
    : status >= 400 ? `The service answered ${status}${error}. ` : "The service does not answer. ";
  set(connection, { "data-state": "broken" });
  showLines(connection, [{ id: "broken", parts: ["■", "Not live:", `last update ${span(silentMs)} ago.`, `${reason}Trying again…`] }]);
}

/** Shows for a short time that the page is live again. */
export function showReconnected(remark) {
  clearTimeout(clearing);
  set(connection, { "data-state": "back" });
  showLines(connection, [{ id: "back", parts: ["✓", "Live again.", "", remark] }]);
  clearing = setTimeout(hideConnection, RECONNECTED_MS);
}

export function hideConnection() {
  clearTimeout(clearing);
  showLines(connection, []);
}
