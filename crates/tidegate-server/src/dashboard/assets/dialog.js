// Forms that send a request, and dialogs: dialog#NAME, #NAME-form, #NAME-go, #NAME-cancel, #NAME-problem.

import { h, setText, button } from "./dom.js";
import { visible } from "./format.js";

/** Creates a form. `send` sends its request. If it fails, the form shows the error and focuses the wrong field. */
export function requestForm({ name, go, danger = false, cancel = null, send }, ...content) {
  const problem = h("p", { class: "problem", id: `${name}-problem`, role: "alert" });
  const submit = h("button", { type: "submit", id: `${name}-go`, class: danger ? "primary danger" : "primary" }, go);
  const form = h("form", {
    id: `${name}-form`, novalidate: true,
    async submit(event) {
      event.preventDefault();
      submit.disabled = true;
      setText(problem, "");
      try {
        await send();
      } catch (error) {
        setText(problem, visible(error.message));
        const wrong = error.field && form.elements.namedItem(error.field);
        if (wrong instanceof HTMLElement) wrong.focus();
      } finally {
        submit.disabled = false;
      }
    },
  }, content, problem, h("div", { class: "actions" }, submit, cancel));
  return form;
}

/** Opens a dialog with a form. `send` returns the result. Resolves to the result, or to null if the dialog was cancelled. */
export function openDialog({ name, title, describedBy, send, ...form }, before, ...content) {
  return new Promise((resolve) => {
    let result = null;
    const cancel = button("Cancel", () => dialog.close(), { id: `${name}-cancel` });
    const dialog = h("dialog", {
      id: name, "aria-labelledby": `${name}-h`, "aria-describedby": describedBy,
      close() {
        dialog.remove();
        resolve(result);
      },
    }, h("h2", { id: `${name}-h` }, title), before, requestForm({
      name, cancel, ...form,
      async send() {
        result = await send();
        dialog.close();
      },
    }, ...content));
    document.body.append(dialog);
    dialog.showModal();
    if (!dialog.querySelector("input")) cancel.focus();
  });
}
