// What changes something: each asks first in a dialog that says what will happen, and resolves to what was done, or null.
// dialog#confirm; #confirm-go, #confirm-cancel, #confirm-says, #confirm-problem; override fields by name= .

import * as api from "./api.js";
import { h, say, keyShown, field, option } from "./dom.js";
import { ALGORITHMS, fullTime, overrideWords, untilWords, visible } from "./words.js";

const DEFAULT_FOR = "2h";

/** Opens the dialog; `send` does it and returns what to say afterwards. */
function confirmed({ title, subject, says, fields = [], go, danger = false, send }) {
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
        say(problem, "");
        try {
          outcome = await send();
          dialog.close();
        } catch (error) {
          say(problem, visible(error.message));
          const wrong = error.field && form.elements.namedItem(error.field);
          if (wrong instanceof HTMLElement) wrong.focus();
        } finally {
          button.disabled = false;
        }
      },
    }, fields, says, problem, h("div", { class: "actions" }, button, cancel));
    const dialog = h("dialog", { id: "confirm", "aria-labelledby": "confirm-h", "aria-describedby": "confirm-says", close() {
      dialog.remove();
      resolve(outcome);
    } }, h("h2", { id: "confirm-h" }, title),
      h("p", { class: "subject" }, keyShown(subject.label), h("span", { class: "soft" }, ` under ${visible(subject.policy)}`)), form);
    document.body.append(dialog);
    dialog.showModal();
    if (fields.length === 0) cancel.focus();
  });
}

const says = (text) => h("p", { class: "says", id: "confirm-says" }, text);

export function askReset(subject) {
  return confirmed({
    title: "Reset this key", subject, go: "Reset", danger: true,
    says: says("What was counted for it under this policy is forgotten, and it begins with all of its limits free. Nothing else changes; an override stays. It is written in the journal and cannot be undone."),
    async send() {
      const { reset } = await api.reset(subject.policy, subject.key);
      return reset ? "Reset: nothing is in use any more." : "There was nothing to reset.";
    },
  });
}

export function askRemove(subject) {
  const { override } = subject.now;
  return confirmed({
    title: "Remove the override", subject, go: "Remove",
    says: says(`The override (${overrideWords(override)}, ${untilWords(override.until_ms)}) ends now, and the policy's own limits hold again. What was counted stays counted. It is written in the journal.`),
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

export function askOverride(subject, policy) {
  const own = policy?.limits ?? [];
  const limits = h("input", { name: "limits", type: "text", value: own.join(", "), autocomplete: "off", spellcheck: "false", input: retell });
  const algorithm = h("select", { name: "algorithm", change: retell }, option("", "as the policy"), ALGORITHMS.map(([name]) => option(name)));
  const during = h("input", { name: "for", type: "text", value: DEFAULT_FOR, "aria-label": "how long, such as 30m, 2h or 1d", autocomplete: "off", class: "short", input: retell });
  const until = h("input", { name: "until_ms", type: "datetime-local", value: localTime(Date.now() + 7_200_000), "aria-label": "until when", input: retell });
  const note = h("input", { name: "note", type: "text", autocomplete: "off", maxlength: 200 });
  const kind = radios("kind", "Kind", [["limits", "other limits"], ["ban", "a ban"], ["exempt", "an exemption"]], retell);
  const end = radios("end", "How long", [["for", "for", during], ["until", "until", until], ["good", "permanently"]], retell);
  const limitFields = h("div", { class: "row" }, field("Limits", limits, "such as 100/1m; several with commas"), field("Counted by", algorithm));
  const told = says("");

  const wanted = () => limits.value.split(",").map((one) => one.trim()).filter(Boolean);

  function request() {
    const asked = { policy: subject.policy, key: subject.key, kind: kind.value() };
    if (asked.kind === "limits") {
      asked.limits = wanted();
      if (asked.limits.length === 0) throw Object.assign(new Error("Say which limits, such as 100/1m."), { field: "limits" });
      if (algorithm.value) asked.algorithm = algorithm.value;
    }
    if (end.value() === "for") asked.for = during.value.trim();
    else if (end.value() === "until") {
      asked.until_ms = new Date(until.value).getTime();
      if (!(asked.until_ms > Date.now())) throw Object.assign(new Error("That time is over already."), { field: "until_ms" });
    } else asked.for_good = true;
    if (note.value.trim()) asked.note = note.value.trim();
    return asked;
  }

  function retell() {
    limitFields.hidden = kind.value() !== "limits";
    const what = {
      limits: `It gets ${wanted().map(visible).join(" and ") || "…"} instead of ${own.map(visible).join(" and ") || "the policy's limits"}. What was counted stays counted.`,
      ban: "Every request of it is denied, whatever is left.",
      exempt: "No request of it is denied by this policy, however many there are.",
    }[kind.value()];
    const untilMs = new Date(until.value).getTime();
    const time = { for: `for ${visible(during.value) || "…"}`, until: Number.isFinite(untilMs) ? untilWords(untilMs) : "until …", good: "until someone removes it" }[end.value()];
    const replaced = subject.now.override ? " It replaces the current override." : "";
    say(told, `${what} It holds at once, ${time}.${replaced} It is written in the journal.`);
  }
  retell();

  return confirmed({
    title: "Override the limits of this key", subject, go: "Override", says: told,
    fields: [kind.set, limitFields, end.set, field("Note", note, "reason, shown in the journal")],
    async send() {
      const { override, replaced } = await api.override(request());
      const until = override.until_ms === null || override.until_ms === undefined ? "permanently" : `until ${fullTime(override.until_ms)}`;
      return `Overridden: ${overrideWords(override)}, ${until}.${replaced ? " It took the place of another." : ""}`;
    },
  });
}
