// Login and logout. The token is sent in the body of the request and is not stored. #login (dialog), #token, #login-problem.

import * as api from "./api.js";
import { h, setText, field } from "./dom.js";
import { visible } from "./format.js";

function loginForm(context, done) {
  const token = h("input", { type: "password", id: "token", autocomplete: "current-password", required: true, spellcheck: "false" });
  const problem = h("p", { class: "problem", id: "login-problem", role: "alert" });
  const submit = h("button", { type: "submit", class: "primary" }, "Log in");
  const form = h("form", {
    id: "login-form",
    async submit(event) {
      event.preventDefault();
      submit.disabled = true;
      setText(problem, "");
      try {
        const session = await api.logIn(token.value);
        token.value = "";
        done();
        context.sessionChanged(session);
      } catch (error) {
        const later = error.status === 429 && error.retryAfter ? ` Try again in ${error.retryAfter} s.` : "";
        setText(problem, `${visible(error.status === 401 ? "This token is wrong." : error.message)}${later}`);
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
  const logOut = () => api.logOut().then(context.sessionChanged, () => {});
  const logInButton = h("button", { type: "button", id: "log-in", click: () => openLogin(context) }, login === "usage" ? "Log in as admin" : "Log in");
  const logOutButton = h("button", { type: "button", id: "log-out", click: logOut }, "Log out");
  return { out: [logInButton], usage: [logInButton, logOutButton], in: [logOutButton] }[login] ?? [];
}

/** The only view without the permission to view. */
export function loginView(context) {
  const { form, submit } = loginForm(context, () => {});
  form.append(h("div", { class: "actions" }, submit));
  return {
    element: h("div", { class: "view narrow" }, h("h1", { tabindex: -1 }, "Log in"),
      h("p", {}, "This service needs a token to show its figures."), h("div", { class: "panel" }, form)),
    title: "Log in",
  };
}
