// The open holds and leases of a key, with the times at which they end by themselves.
// #key-reservations section; rows with data-figure="units|ends" inside.

import { h, set, setText, ago, hiddenCaption, panel, table } from "./dom.js";
import { clockTime, count, plural, wait } from "./format.js";

const LISTED = 20;

/** The most that the service lists. */
const REPORTED = 1000;

const AT_END = { released: "units are given back", spent: "units stay spent" };

export function reservationsPanel() {
  const body = h("tbody");
  const note = h("p", { class: "soft small" });
  const own = h("p", { class: "soft small", id: "key-own-lease" });
  const element = panel("Open holds and leases", note, own,
    table({ class: "fold" }, hiddenCaption("The units that callers hold and nodes lease, and when they end by themselves"),
      ["kind", ["units", "n"], "since", "ends in", "at its end"], body));
  element.id = "key-reservations";
  element.hidden = true;
  let shownAs = "";
  let nowUs = 0;

  const row = ({ kind, units, granted_at_us: granted, until_us: until, expires }) => {
    const ends = h("b", { "data-figure": "ends", "data-value": until });
    return Object.assign(h("tr", {},
      h("th", { scope: "row" }, kind),
      h("td", { class: "n", "data-column": "units" }, h("b", { "data-figure": "units", "data-value": units }, count(units))),
      h("td", { "data-column": "since" }, ago(granted / 1000)),
      h("td", { "data-column": "ends in" }, ends, h("span", { class: "soft small" }, ` at ${clockTime(until / 1000)}`)),
      h("td", { "data-column": "at its end" }, kind === "lease" ? "all of it counts as spent" : AT_END[expires] ?? expires)), { ends, until });
  };

  function countDown(elapsedMs) {
    for (const line of body.children) {
      const left = (line.until - nowUs) / 1000 - elapsedMs;
      setText(line.ends, left > 0 ? wait(left) : "ended");
      set(line.ends, { "data-left": Math.max(0, Math.round(left / 1000)) });
    }
  }

  return {
    element,
    /** Draws the reservations of a key. `lease` is that of this node, if it is among those with most local decisions. */
    draw({ reservations = [], now_us: now }, lease) {
      nowUs = now;
      element.hidden = reservations.length === 0 && !lease;
      const decided = lease && `It has admitted ${plural(lease.admitted, "request")} by leases, and denied ${count(lease.denied)} by remembered denials.`;
      setText(own, !lease ? "" : lease.units ? `This node admits from a lease of ${plural(lease.units, "unit")}, with ${count(lease.left)} left. Other leases are of other nodes, or this node is settling them. ${decided}` : `This node admits from no lease now. ${decided}`);
      const fresh = JSON.stringify(reservations);
      if (fresh !== shownAs) {
        shownAs = fresh;
        body.replaceChildren(...reservations.slice(0, LISTED).map(row));
        const units = reservations.reduce((sum, { units }) => sum + units, 0);
        const all = `${count(reservations.length)}${reservations.length >= REPORTED ? " or more" : ""}`;
        const rest = reservations.length > LISTED ? ` The first ${LISTED} to end are listed.` : "";
        setText(note, reservations.length === 0 ? "" : `${all} open with ${plural(units, "unit")}, unless they are committed, released, renewed or settled before their end.${rest}`);
      }
      countDown(0);
    },
    /** Updates the remaining times `elapsedMs` after the state was received. */
    frame: countDown,
  };
}
