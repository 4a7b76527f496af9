// Logging in and out. The token goes into the request's body and nowhere else. #login (dialog), #token, #login-problem.

import * as api from "./api.js";
import { h, say, field } from "./dom.js";
import { visible } from "./words.js";

function loginForm(context, done) {
  const token = h("input", { type: "password", id: "token", autocomplete: "current-password", required: true, spellcheck: "false" });
  const problem = h("p", { class: "problem", id: "login-problem", role: "alert" });
  const submit = h("button", { type: "submit", class: "primary" }, "Log in");
  const form = h("form", {
    id: "login-form",
    async submit(event) {
      event.preventDefault();
      submit.disabled = true;
      say(problem, "");
      try {
        const session = await api.logIn(token.value);
        token.value = "";
        done();
        context.sessionChanged(session);
      } catch (error) {
        const later = error.status === 429 && error.retryAfter ? ` Try again in ${error.retryAfter} s.` : "";
        say(problem, `${visible(error.status === 401 ? "That token is not right." : error.message)}${later}`);
        token.select();
      } finally {
        submit.disabled = false;
      }
    },
  }, field("Token", token, "One of the service’s settings. This page does not keep it."), problem);
  return { form, submit, token };
}

function openLogin(context) {
  const dialog = h("dialog", { id: "login", "aria-labelledby": "login-h", close: () => dialog.remove() });
  const { form, submit, token } = loginForm(context, () => dialog.close());
  form.append(h("div", { class: "actions" }, submit, h("button", { type: "button", click: () => dialog.close() }, "Cancel")));
  dialog.append(h("h2", { id: "login-h" }, "Log in"), form);
  document.body.append(dialog);
  dialog.showModal();
  token.focus();
}

export function accountButton(context) {
  const { login, may_look } = context.session;
  if (!may_look) return [];
  const leave = () => api.logOut().then(context.sessionChanged, () => {});
  const enter = h("button", { type: "button", id: "log-in", click: () => openLogin(context) }, login === "usage" ? "Log in as admin" : "Log in");
  const exit = h("button", { type: "button", id: "log-out", click: leave }, "Log out");
  return { out: [enter], usage: [enter, exit], in: [exit] }[login] ?? [];
}

/** The only view there is for those who may not look. */
export function loginView(context) {
  const { form, submit } = loginForm(context, () => {});
  form.append(h("div", { class: "actions" }, submit));
  return {
    element: h("div", { class: "view narrow" }, h("h1", { tabindex: -1 }, "Log in"),
      h("p", {}, "This service needs a token to show its figures."), h("div", { class: "panel" }, form)),
    title: "Log in",
  };
}
