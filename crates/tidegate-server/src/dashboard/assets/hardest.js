// The keys that are denied most now, over all policies; while the service does not answer, the last ones that it reported.
// #hardest-now rows: data-label="LABEL" data-policy="POLICY" with data-figure="recent" inside.

import { keyAddress, subjectOf } from "./api.js";
import { h, setText, rows, bar, hiddenCaption, keyElement, panel, policyLink, table } from "./dom.js";
import { causeText, clockTime, count, rate, visible } from "./format.js";

export function hardestPanel({ session, connection }) {
  const body = h("tbody", { id: "hardest-now" });
  const note = h("p", { class: "soft small" });
  const none = h("p", { class: "none soft", id: "hardest-none" });
  const element = panel("Most denied now", note,
    table({ class: "hits now fold" }, hiddenCaption("The keys with the most denials in a minute, over all policies"),
      ["key", "policy", "denied by", "denials a second", h("span", { class: "unseen" }, "action")], body), none);

  function row({ policy, key, label, ...hit }, index) {
    const subject = session.may_change ? subjectOf(policy, { key, label }) : null;
    const shown = label === "" ? h("span", { class: "soft" }, `hidden key ${index + 1}`) : keyElement(label);
    return h("tr", { "data-label": visible(label), "data-policy": policy },
      h("th", { scope: "row" }, subject ? h("a", { class: "key-link", href: keyAddress(subject), title: "Inspect this key" }, shown) : shown),
      h("td", { "data-column": "policy" }, policyLink(policy)),
      h("td", { "data-column": "denied by" }, causeText(hit)),
      h("td", { "data-column": "denials a second" }, bar("recent")),
      h("td", { class: "n" }, subject && h("a", { href: keyAddress(subject, "override"), title: "Set other limits, a ban or an exemption" }, "Override…")));
  }

  /** Names the minute of the denials. The figures do not change while the service is down. */
  function drawTime({ hardest, last }) {
    const down = connection();
    const until = down && clockTime(down.lastEventMs);
    const minute = down ? `the minute before ${until}` : "the last minute";
    const hidden = hardest.some(({ keys }) => keys === "hidden");
    setText(element.firstChild, down ? `Most denied until ${until}` : "Most denied now");
    setText(note, hardest.length === 0 ? "" : `Denials in ${minute}, over all policies.${hidden ? ` Keys are hidden: ${session.login === "out" ? "log in" : "use the admin token"} to see them.` : ""}`);
    setText(none, last.decisions === 0 && !down ? "No traffic, so no key is denied." : `No key was denied in ${minute}. A policy's page shows the last 5 to 10 minutes.`);
  }

  return {
    element,
    drawTime,
    draw(overview) {
      const { hardest, hardest_seconds: seconds } = overview;
      drawTime(overview);
      const maximum = Math.max(1, ...hardest.map(({ recent }) => recent));
      const idOf = ({ policy, label, key, reason, limit }, i) => JSON.stringify([policy, label === "" ? i : [key, label], reason, limit]);
      rows(body, hardest, idOf, row, ({ children }, { recent }) => {
        const perSecond = recent / Math.max(1, seconds);
        children[3].firstChild.show(recent / maximum, recent, rate(perSecond < 0.05 ? 0.1 : perSecond), "denied", "", `${count(recent)} in ${seconds} s`);
      });
    },
  };
}
