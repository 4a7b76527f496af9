// The policies that a key is known under. #known rows: data-policy="NAME" with data-figure="used|denials" inside.

import { keyAddress, subjectOf } from "./api.js";
import { h, set, setText, rows, bar, hiddenCaption, panel, table } from "./dom.js";
import { OVERRIDES, count, isNearLimit, plural, visible } from "./format.js";

export function knownPanel() {
  const body = h("tbody", { id: "known" });
  const note = h("p", { class: "soft small", id: "known-note" });
  const element = panel("Policies of this key", note,
    table({ class: "known fold" }, hiddenCaption("The policies under which this key has units in use, denials or an override"),
      ["policy", "limit", "used", ["denials", "n"], "override"], body));
  element.hidden = true;

  const row = ({ policy, key, label, mode }) => {
    const subject = subjectOf(policy, { key, label });
    return h("tr", { "data-policy": policy },
      h("th", { scope: "row" }, subject ? h("a", { href: keyAddress(subject) }, visible(policy)) : visible(policy), mode === "shadow" && h("span", { class: "tag" }, "shadow")),
      h("td", { class: "limits", "data-column": "limit" }),
      h("td", { "data-column": "used" }, bar("used")),
      h("td", { class: "n", "data-column": "denials" }, h("b", { "data-figure": "denials" })),
      h("td", { "data-column": "override" }));
  };

  return {
    element,
    /** Draws the policies. `current` is the policy of the page. */
    draw({ policies, searched, configured, only_hidden: onlyHidden }, current) {
      element.hidden = false;
      const others = onlyHidden ? " Policies that do not hide their keys are left out, because they would reveal the key." : searched < configured ? ` ${plural(searched, "policy", "policies")} of ${count(configured)} were searched.` : "";
      setText(note, `${policies.length === 0 ? "No policy knows this key: it has no units in use, no denials and no override." : "Units in use, for the limit with the largest share in use, and denials in the last 5 to 10 minutes."}${others}`);
      rows(body, policies, ({ policy, mode }) => `${mode} ${policy}`, row, (line, one) => {
        const { used, capacity, denials, mode, override, policy } = one;
        const isShadow = mode === "shadow";
        set(line, { "aria-current": policy === current ? "true" : null });
        setText(line.children[1], visible(one.limit));
        line.children[2].firstChild.show(capacity ? used / capacity : 0, used, `${count(used)} of ${count(capacity)}`, isShadow ? "shadow" : used >= capacity ? "denied" : isNearLimit(used, capacity) ? "near" : "calm");
        setText(line.children[3].firstChild, count(denials));
        set(line.children[3].firstChild, { "data-value": denials });
        set(line.children[3], { title: isShadow ? "would be denied" : null });
        setText(line.children[4], override ? OVERRIDES[override.kind] : "none");
      });
    },
  };
}
