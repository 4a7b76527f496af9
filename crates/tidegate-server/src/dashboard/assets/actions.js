// Actions that change a key. Each opens a dialog that describes the change, and resolves to the result or to null.
// dialog#confirm; #confirm-go, #confirm-cancel, #confirm-text, #confirm-problem; override fields by name= .

import * as api from "./api.js";
import { h, setText, keyElement, field, option } from "./dom.js";
import { openDialog } from "./dialog.js";
import { ALGORITHMS, overrideText, untilText, visible } from "./format.js";

const DEFAULT_FOR = "2h";

const description = (text) => h("p", { class: "description", id: "confirm-text" }, text);

function confirm({ subject, text, fields = [], ...dialog }) {
  const about = h("p", { class: "subject" }, keyElement(subject.label), h("span", { class: "soft" }, ` under ${visible(subject.policy)}`));
  return openDialog({ name: "confirm", describedBy: "confirm-text", ...dialog }, about, ...fields, text);
}

export function confirmReset(subject) {
  return confirm({
    title: "Reset this key", subject, go: "Reset", danger: true,
    text: description("This deletes the counted units of the key under this policy, so that no unit is in use. An override stays active. The events record the reset. It cannot be undone."),
    async send() {
      const { reset } = await api.reset(subject.policy, subject.key);
      return reset ? "Reset: no unit is in use." : "There was nothing to reset.";
    },
  });
}

export function confirmRemoveOverride(subject) {
  const { override } = subject.now;
  return confirm({
    title: "Remove the override", subject, go: "Remove",
    text: description(`The override (${overrideText(override)}, ${untilText(override.until_ms)}) ends now, and the limits of the policy apply again. Counted units stay counted. The events record it.`),
    async send() {
      const { lifted } = await api.removeOverride(subject.policy, subject.key);
      return lifted ? "Removed: the limits of the policy apply again." : "There was no override.";
    },
  });
}

function radios(name, legend, choices, changed) {
  const set = h("fieldset", {}, h("legend", {}, legend), choices.map(([value, text, control], i) => {
    const id = `${name}-${value}`;
    const radio = h("input", { type: "radio", name, id, value, change: changed, checked: i === 0 });
    return h("div", { class: "radio" }, radio, h("label", { for: id }, text), control);
  }));
  return { set, value: () => set.querySelector(`input[name=${name}]:checked`).value };
}

const localTime = (ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);

const wrongField = (field, message) => Object.assign(new Error(message), { field });

export function confirmOverride(subject, policy) {
  const own = policy?.limits ?? [];
  const textInput = (name, value, props) => h("input", { name, type: "text", value, autocomplete: "off", ...props });
  const limits = textInput("limits", own.join(", "), { spellcheck: "false", input: updateText });
  const algorithm = h("select", { name: "algorithm", change: updateText }, option("", "that of the policy"), ALGORITHMS.map(([name]) => option(name)));
  const during = textInput("for", DEFAULT_FOR, { "aria-label": "how long, such as 30m, 2h or 1d", class: "short", input: updateText });
  const until = h("input", { name: "until_ms", type: "datetime-local", value: localTime(Date.now() + 7_200_000), "aria-label": "until when", input: updateText });
  const note = textInput("note", "", { maxlength: 200 });
  const kind = radios("kind", "Kind", [["limits", "other limits"], ["ban", "a ban"], ["exempt", "an exemption"]], updateText);
  const end = radios("end", "How long", [["for", "for", during], ["until", "until", until], ["good", "permanently"]], updateText);
  const limitFields = h("div", { class: "row" }, field("Limits", limits, "such as 100/1m; several with commas"), field("Algorithm", algorithm));
  const text = description("");

  const enteredLimits = () => limits.value.split(",").map((one) => one.trim()).filter(Boolean);
  const untilMs = () => new Date(until.value).getTime();

  function request() {
    const body = { policy: subject.policy, key: subject.key, kind: kind.value() };
    if (body.kind === "limits") {
      body.limits = enteredLimits();
      if (body.limits.length === 0) throw wrongField("limits", "Enter the limits, such as 100/1m.");
      if (algorithm.value) body.algorithm = algorithm.value;
    }
    if (end.value() === "until" && !(untilMs() > Date.now())) throw wrongField("until_ms", "This time is in the past.");
    Object.assign(body, { for: { for: during.value.trim() }, until: { until_ms: untilMs() }, good: { for_good: true } }[end.value()]);
    if (note.value.trim()) body.note = note.value.trim();
    return body;
  }

  function updateText() {
    limitFields.hidden = kind.value() !== "limits";
    const what = {
      limits: `The key gets ${enteredLimits().map(visible).join(" and ") || "…"} instead of ${own.map(visible).join(" and ") || "the limits of the policy"}. Counted units stay counted.`,
      ban: "Every request of the key is denied.",
      exempt: "No request of the key is denied by this policy.",
    }[kind.value()];
    const time = { for: `for ${visible(during.value) || "…"}`, until: Number.isFinite(untilMs()) ? untilText(untilMs()) : "until …", good: "until an operator removes it" }[end.value()];
    const replaced = subject.now.override ? " It replaces the current override." : "";
    setText(text, `${what} The override applies immediately, ${time}.${replaced} The events record it.`);
  }
  updateText();

  return confirm({
    title: "Override the limits of this key", subject, go: "Override", text,
    fields: [kind.set, limitFields, end.set, field("Note", note, "the reason, shown with the event")],
    async send() {
      const { override, replaced } = await api.setOverride(request());
      return `Overridden: ${overrideText(override)}, ${untilText(override.until_ms)}.${replaced ? " It replaces an earlier override." : ""}`;
    },
  });
}
