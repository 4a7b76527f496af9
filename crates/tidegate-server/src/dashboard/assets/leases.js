// The leases of this node: the keys for which it decides most requests by itself.
// #leases rows: data-label="LABEL" data-policy="POLICY" with data-figure="left|ends|admitted|denied" inside.

import { keyAddress, subjectOf } from "./api.js";
import { h, set, setText, rows, bar, hiddenCaption, keyElement, panel, policyLink, table } from "./dom.js";
import { count, plural, share, visible, wait } from "./format.js";

export function leasesPanel({ session }) {
  const body = h("tbody", { id: "leases" });
  const note = h("p", { class: "soft small" });
  const more = h("p", { class: "soft small" });
  const none = h("p", { class: "none soft" }, "No key is requested often enough to lease units for it.");
  const element = panel("Leases of this node", note,
    table({ class: "hits leases fold" }, hiddenCaption("The keys for which this node decides most requests by itself"),
      ["key", "policy", "units left", ["ends in", "n"], ["admitted", "n"], ["denied", "n"]], body), none, more);
  element.hidden = true;

  const number = (name) => h("td", { class: "n", "data-column": name }, h("b", { "data-figure": name.split(" ")[0] }));

  function row({ policy, key, label }, index) {
    const subject = session.may_change ? subjectOf(policy, { key, label }) : null;
    const shown = label === "" ? h("span", { class: "soft" }, `hidden key ${index + 1}`) : keyElement(label);
    return h("tr", { "data-label": visible(label), "data-policy": policy },
      h("th", { scope: "row" }, subject ? h("a", { class: "key-link", href: keyAddress(subject), title: "Inspect this key" }, shown) : shown),
      h("td", { "data-column": "policy" }, policyLink(policy)),
      h("td", { "data-column": "units left" }, bar("left")),
      number("ends in"), number("admitted"), number("denied"));
  }

  function show(cell, text, value) {
    setText(cell.firstChild, text);
    set(cell.firstChild, { "data-value": value });
  }

  return {
    element,
    draw({ store: { leases } }) {
      element.hidden = !leases;
      if (!leases) return;
      const { admitted, denied, asked, open, left, remembered, keys } = leases;
      const own = admitted + denied;
      setText(note, own + asked === 0 ? "" : `This node decided ${share(own / (own + asked))} of ${plural(own + asked, "request")} under policies with leases by itself since its start. It holds ${plural(open, "lease")} with ${plural(left, "unit")} left.`);
      setText(more, remembered > keys.length ? `${count(remembered - keys.length)} more not listed.` : "");
      rows(body, keys, ({ policy, label, key }, i) => JSON.stringify([policy, label === "" ? i : [key, label]]), row, ({ children }, lease) => {
        children[2].firstChild.show(lease.units ? lease.left / lease.units : 0, lease.left, lease.units ? count(lease.left) : "none", "calm", lease.units ? `of ${count(lease.units)}` : "");
        show(children[3], lease.ends_in_ms === null ? "–" : wait(lease.ends_in_ms), lease.ends_in_ms ?? "");
        show(children[4], count(lease.admitted), lease.admitted);
        show(children[5], count(lease.denied), lease.denied);
        set(children[5], { title: lease.denies_for_ms === null ? null : `Requests are denied for ${wait(lease.denies_for_ms)} more without asking the store.` });
      });
    },
  };
}
