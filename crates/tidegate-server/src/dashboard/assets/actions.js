// Actions that change a key. Each opens a dialog that describes the change, and resolves to the result or to null.
// A subject is { policy, key or hash, label, now: the state of the key }. dialog#confirm; #confirm-go, #confirm-cancel, #confirm-text, #confirm-problem; override fields by name= .

import * as api from "./api.js";
import { h, setText, keyElement, field, option } from "./dom.js";
import { openDialog } from "./dialog.js";
import { ALGORITHMS, OVERRIDES, overrideText, parseLimit, untilText, visible } from "./format.js";

const DEFAULT_FOR = "2h";

/** The largest number in a limit. */
const MAX_UNITS = 1e12;

/** Returns twice each limit, so that the preset values of the dialog change something. */
const doubled = (limits) => limits.map((text) => {
  const { max } = parseLimit(text) ?? {};
  return max ? `${Math.min(MAX_UNITS, 2 * max)}${text.slice(text.indexOf("/"))}` : text;
});

const description = (text) => h("p", { class: "description", id: "confirm-text" }, text);

function confirm({ subject, text, fields = [], ...dialog }) {
  const about = h("p", { class: "subject" }, keyElement(subject.label), h("span", { class: "soft" }, ` under ${visible(subject.policy)}`));
  return openDialog({ name: "confirm", describedBy: "confirm-text", ...dialog }, about, ...fields, text);
}

export function confirmReset(subject) {
  return confirm({
    title: "Reset this key", subject, go: "Reset", danger: true,
    text: description("This deletes the counted units of the key under this policy. Then no unit is in use. Other limits, a ban or an exemption of the key stay active. The events list the reset. You cannot undo it."),
    async send() {
      const { reset } = await api.reset(subject);
      return reset ? "Reset: no unit is in use." : "There was nothing to reset.";
    },
  });
}

export function confirmRemoveOverride(subject) {
  const { override } = subject.now;
  return confirm({
    title: `Remove the ${OVERRIDES[override.kind]}`, subject, go: "Remove",
    text: description(`Now: ${overrideText(override)}, ${untilText(override.until_ms)}. After the removal, the limits of the policy apply again. Counted units stay counted. The events list the removal.`),
    async send() {
      const { lifted } = await api.removeOverride(subject);
      return lifted ? "Removed: the limits of the policy apply again." : "There was nothing to remove.";
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

const GO = { limits: "Set the limits", ban: "Ban", exempt: "Exempt" };

export function confirmOverride(subject) {
  const present = subject.now.limits.map(({ limit }) => limit);
  const textInput = (name, value, props) => h("input", { name, type: "text", value, autocomplete: "off", ...props });
  const limits = textInput("limits", doubled(present).join(", "), { spellcheck: "false", input: updateText });
  const algorithm = h("select", { name: "algorithm", change: updateText }, option("", "that of the policy"), ALGORITHMS.map(([name]) => option(name)));
  const during = textInput("for", DEFAULT_FOR, { "aria-label": "how long, such as 30m, 2h or 1d", class: "short", input: updateText });
  const until = h("input", { name: "until_ms", type: "datetime-local", value: localTime(Date.now() + 7_200_000), "aria-label": "until when", input: updateText });
  const note = textInput("note", "", { maxlength: 200 });
  const kind = radios("kind", "Kind", Object.entries(OVERRIDES), updateText);
  const end = radios("end", "How long", [["for", "for", during], ["until", "until", until], ["good", "permanently"]], updateText);
  const limitFields = h("div", { class: "row" }, field("Limits", limits, "such as 100/1m; several with commas"), field("Algorithm", algorithm));
  const text = description("");

  const enteredLimits = () => limits.value.split(",").map((one) => one.trim()).filter(Boolean);
  const untilMs = () => new Date(until.value).getTime();

  function request() {
    const body = { kind: kind.value() };
    if (body.kind === "limits") {
      body.limits = enteredLimits();
      if (body.limits.length === 0) throw wrongField("limits", "Enter the limits, such as 100/1m.");
      if (algorithm.value) body.algorithm = algorithm.value;
    }
    if (end.value() === "until" && !(untilMs() > Date.now())) throw wrongField("until_ms", "This time is in the past.");
    Object.assign(body, { for: { for: during.value.trim() }, until: { until_ms: untilMs() }, good: { permanent: true } }[end.value()]);
    if (note.value.trim()) body.note = note.value.trim();
    return body;
  }

  function updateText() {
    limitFields.hidden = kind.value() !== "limits";
    const joined = (list) => list.map(visible).join(" and ");
    const entered = enteredLimits();
    const isSame = joined(entered) === joined(present) && !algorithm.value;
    const what = {
      limits: isSame ? `The key has ${joined(present)} already: enter other limits.`
        : `The key gets ${joined(entered) || "…"} instead of ${joined(present)}. Counted units stay counted.`,
      ban: "A ban denies every request of the key.",
      exempt: "An exemption allows every request of the key under this policy, and counts nothing.",
    }[kind.value()];
    const time = { for: `for ${visible(during.value) || "…"}`, until: Number.isFinite(untilMs()) ? untilText(untilMs()) : "until …", good: "permanently, until an operator removes it" }[end.value()];
    const { override } = subject.now;
    const replaced = override ? ` It replaces: ${overrideText(override)}, ${untilText(override.until_ms)}.` : "";
    setText(text, `${what} It applies immediately, ${time}.${replaced} The events list it.`);
    const submit = document.getElementById("confirm-go");
    if (submit) setText(submit, GO[kind.value()]);
  }
  updateText();

  return confirm({
    title: "Override: other limits, a ban or an exemption", subject, go: GO.limits, text,
    fields: [kind.set, limitFields, end.set, field("Note", note, "the reason, shown in the events")],
    async send() {
      const { override, replaced } = await api.setOverride(subject, request());
      return `Set: ${overrideText(override)}, ${untilText(override.until_ms)}.${replaced ? " It replaces an earlier one." : ""}`;
    },
  });
}
