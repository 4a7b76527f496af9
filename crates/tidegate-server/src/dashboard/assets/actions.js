// Actions that change a key. Each opens a dialog that describes the change, and resolves to the result or to null.
// dialog#confirm; #confirm-go, #confirm-cancel, #confirm-text, #confirm-problem; override fields by name= .

import * as api from "./api.js";
import { h, setText, keyElement, field, option } from "./dom.js";
import { ALGORITHMS, fullTime, overrideText, untilText, visible } from "./format.js";

const DEFAULT_FOR = "2h";

/** Opens the dialog. `send` performs the action and returns the text of its result. */
function openConfirmation({ title, subject, text, fields = [], go, danger = false, send }) {
  return new Promise((resolve) => {
    let outcome = null;
    const problem = h("p", { class: "problem", id: "confirm-problem", role: "alert" });
    const button = h("button", { type: "submit", id: "confirm-go", class: danger ? "primary danger" : "primary" }, go);
    const cancel = h("button", { type: "button", id: "confirm-cancel", click: () => dialog.close() }, "Cancel");
    const form = h("form", {
      novalidate: true,
      async submit(event) {
        event.preventDefault();
        button.disabled = true;
        setText(problem, "");
        try {
          outcome = await send();
          dialog.close();
        } catch (error) {
          setText(problem, visible(error.message));
          const wrong = error.field && form.elements.namedItem(error.field);
          if (wrong instanceof HTMLElement) wrong.focus();
        } finally {
          button.disabled = false;
        }
      },
    }, fields, text, problem, h("div", { class: "actions" }, button, cancel));
    const dialog = h("dialog", { id: "confirm", "aria-labelledby": "confirm-h", "aria-describedby": "confirm-text", close() {
      dialog.remove();
      resolve(outcome);
    } }, h("h2", { id: "confirm-h" }, title),
      h("p", { class: "subject" }, keyElement(subject.label), h("span", { class: "soft" }, ` under ${visible(subject.policy)}`)), form);
    document.body.append(dialog);
    dialog.showModal();
    if (fields.length === 0) cancel.focus();
  });
}

const description = (text) => h("p", { class: "description", id: "confirm-text" }, text);

export function confirmReset(subject) {
  return openConfirmation({
    title: "Reset this key", subject, go: "Reset", danger: true,
    text: description("This deletes the counted units of the key under this policy, so that all of its limits are free. An override stays. The journal records the reset. It cannot be undone."),
    async send() {
      const { reset } = await api.reset(subject.policy, subject.key);
      return reset ? "Reset: no unit is in use." : "There was nothing to reset.";
    },
  });
}

export function confirmRemoveOverride(subject) {
  const { override } = subject.now;
  return openConfirmation({
    title: "Remove the override", subject, go: "Remove",
    text: description(`The override (${overrideText(override)}, ${untilText(override.until_ms)}) ends now, and the limits of the policy apply again. Counted units stay counted. The journal records it.`),
    async send() {
      const { lifted } = await api.removeOverride(subject.policy, subject.key);
      return lifted ? "Removed: the limits of the policy apply again." : "There was no override.";
    },
  });
}

function radios(name, legend, choices, changed) {
  const set = h("fieldset", {}, h("legend", {}, legend), choices.map(([value, text, control], i) => {
    const id = `${name}-${value}`;
    const radio = h("input", { type: "radio", name, id, value, change: changed });
    radio.checked = i === 0;
    return h("div", { class: "radio" }, radio, h("label", { for: id }, text), control ?? null);
  }));
  return { set, value: () => set.querySelector(`input[name=${name}]:checked`).value };
}

const localTime = (ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);

export function confirmOverride(subject, policy) {
  const own = policy?.limits ?? [];
  const limits = h("input", { name: "limits", type: "text", value: own.join(", "), autocomplete: "off", spellcheck: "false", input: updateText });
  const algorithm = h("select", { name: "algorithm", change: updateText }, option("", "as the policy"), ALGORITHMS.map(([name]) => option(name)));
  const during = h("input", { name: "for", type: "text", value: DEFAULT_FOR, "aria-label": "how long, such as 30m, 2h or 1d", autocomplete: "off", class: "short", input: updateText });
  const until = h("input", { name: "until_ms", type: "datetime-local", value: localTime(Date.now() + 7_200_000), "aria-label": "until when", input: updateText });
  const note = h("input", { name: "note", type: "text", autocomplete: "off", maxlength: 200 });
  const kind = radios("kind", "Kind", [["limits", "other limits"], ["ban", "a ban"], ["exempt", "an exemption"]], updateText);
  const end = radios("end", "How long", [["for", "for", during], ["until", "until", until], ["good", "permanently"]], updateText);
  const limitFields = h("div", { class: "row" }, field("Limits", limits, "such as 100/1m; several with commas"), field("Counted by", algorithm));
  const text = description("");

  const enteredLimits = () => limits.value.split(",").map((one) => one.trim()).filter(Boolean);

  function request() {
    const body = { policy: subject.policy, key: subject.key, kind: kind.value() };
    if (body.kind === "limits") {
      body.limits = enteredLimits();
      if (body.limits.length === 0) throw Object.assign(new Error("Enter the limits, such as 100/1m."), { field: "limits" });
      if (algorithm.value) body.algorithm = algorithm.value;
    }
    if (end.value() === "for") body.for = during.value.trim();
    else if (end.value() === "until") {
      body.until_ms = new Date(until.value).getTime();
      if (!(body.until_ms > Date.now())) throw Object.assign(new Error("This time is in the past."), { field: "until_ms" });
    } else body.for_good = true;
    if (note.value.trim()) body.note = note.value.trim();
    return body;
  }

  function updateText() {
    limitFields.hidden = kind.value() !== "limits";
    const what = {
      limits: `The key gets ${enteredLimits().map(visible).join(" and ") || "…"} instead of ${own.map(visible).join(" and ") || "the policy's limits"}. Counted units stay counted.`,
      ban: "Every request of the key is denied.",
      exempt: "No request of the key is denied by this policy.",
    }[kind.value()];
    const untilMs = new Date(until.value).getTime();
    const time = { for: `for ${visible(during.value) || "…"}`, until: Number.isFinite(untilMs) ? untilText(untilMs) : "until …", good: "until someone removes it" }[end.value()];
    const replaced = subject.now.override ? " It replaces the current override." : "";
    setText(text, `${what} The override applies immediately, ${time}.${replaced} The journal records it.`);
  }
  updateText();

  return openConfirmation({
    title: "Override the limits of this key", subject, go: "Override", text,
    fields: [kind.set, limitFields, end.set, field("Note", note, "reason, shown in the journal")],
    async send() {
      const { override, replaced } = await api.setOverride(request());
      const until = override.until_ms === null || override.until_ms === undefined ? "permanently" : `until ${fullTime(override.until_ms)}`;
      return `Overridden: ${overrideText(override)}, ${until}.${replaced ? " It replaces an earlier override." : ""}`;
    },
  });
}
