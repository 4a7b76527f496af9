// The keys that are denied most now, over all policies. #hardest-now rows: data-label="LABEL" data-policy="POLICY" with
// data-figure="recent" inside.

import { keyAddress, subjectOf } from "./api.js";
import { h, setText, rows, bar, hiddenCaption, keyElement, panel, table } from "./dom.js";
import { causeText, count, rate, visible } from "./format.js";

const policyLink = (policy) => h("a", { href: `#/policy/${encodeURIComponent(policy)}` }, visible(policy));

export function hardestPanel({ session }) {
  const body = h("tbody", { id: "hardest-now" });
  const note = h("p", { class: "soft small" });
  const none = h("p", { class: "none soft", id: "hardest-none" });
  const element = panel("Most denied now", note,
    table({ class: "hits now fold" }, hiddenCaption("The keys with the most denials in the last minute, over all policies"),
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

  return {
    element,
    draw({ hardest, hardest_seconds: seconds, last }) {
      const hidden = hardest.some(({ keys }) => keys === "hidden");
      setText(note, hardest.length === 0 ? "" : `Denials in the last minute, over all policies.${hidden ? ` Keys are hidden: ${session.login === "out" ? "log in" : "use the admin token"} to see them.` : ""}`);
      setText(none, last.decisions === 0 ? "No traffic, so no key is denied." : "No key was denied in the last minute. A policy's page shows the last 5 to 10 minutes.");
      const maximum = Math.max(1, ...hardest.map(({ recent }) => recent));
      const idOf = ({ policy, label, key, reason, limit }, i) => JSON.stringify([policy, label === "" ? i : [key, label], reason, limit]);
      rows(body, hardest, idOf, row, ({ children }, { recent }) => {
        const perSecond = recent / Math.max(1, seconds);
        children[3].firstChild.show(recent / maximum, recent, rate(perSecond < 0.05 ? 0.1 : perSecond), "denied", "", `${count(recent)} in ${seconds} s`);
      });
    },
  };
}
