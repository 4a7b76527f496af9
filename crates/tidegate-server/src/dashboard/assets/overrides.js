// The list of active overrides: other limits, bans and exemptions. #overrides rows: data-policy data-label.

import * as api from "./api.js";
import { confirmRemoveOverride } from "./actions.js";
import { h, setText, rows, button, hiddenCaption, keyElement, panel, table } from "./dom.js";
import { fullTime, overrideText, visible } from "./format.js";

const NONE = "No key has other limits, a ban or an exemption. To set one, inspect a key and select Override.";
const REFRESH_MS = 30_000;

/** `change(confirm, subject)` opens the dialog that removes an override. */
export function overridesPanel(change) {
  const body = h("tbody", { id: "overrides" });
  const none = h("p", { class: "soft" }, NONE);
  const list = table({ class: "override-list fold" }, hiddenCaption("Keys with other limits, a ban or an exemption"),
    ["policy", "key", "override", "until", "note", h("span", { class: "unseen" }, "action")], body);
  list.hidden = true;

  function draw(overrides) {
    list.hidden = overrides.length === 0;
    none.hidden = overrides.length > 0;
    setText(none, NONE);
    rows(body, overrides, (one) => JSON.stringify(one), ({ policy, key, label, override }) => {
      const subject = api.subjectOf(policy, { key, label });
      const { until_ms, note } = override;
      return h("tr", { "data-policy": policy, "data-label": visible(label) },
        h("td", { "data-column": "policy" }, visible(policy)),
        h("th", { scope: "row" }, subject ? h("a", { class: "key-link", href: api.keyAddress(subject) }, keyElement(label)) : keyElement(label || "hidden")),
        h("td", { "data-column": "override" }, overrideText(override)),
        h("td", { "data-column": "until" }, until_ms === null ? "permanently" : h("time", { datetime: new Date(until_ms).toISOString() }, fullTime(until_ms))),
        h("td", { "data-column": "note", class: "note-text" }, h("bdi", {}, visible(note) || "–")),
        h("td", {}, subject && button("Remove…", () => change(confirmRemoveOverride, { ...subject, label, now: { override } }), { "data-action": "lift" })));
    });
  }

  async function refresh() {
    try {
      draw((await api.overrides()).overrides);
    } catch (error) {
      none.hidden = false;
      setText(none, `The list is not available: ${visible(error.message)}`);
    }
  }

  refresh();
  const timer = setInterval(refresh, REFRESH_MS);
  return { element: panel("Other limits, bans and exemptions", none, list), refresh, stop: () => clearInterval(timer) };
}
