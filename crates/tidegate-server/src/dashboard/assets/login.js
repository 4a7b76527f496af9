// Login and logout. The token is sent in the body of the request and is not stored. #login (dialog), #token, #login-problem.

import * as api from "./api.js";
import { h, button, field } from "./dom.js";
import { openDialog, requestForm } from "./dialog.js";

function loginForm(context) {
  const token = h("input", { type: "password", id: "token", name: "token", autocomplete: "current-password", spellcheck: "false" });
  return {
    name: "login", go: "Log in",
    content: field("Token", token, "A token from the settings of the service. This page does not store it."),
    async send() {
      try {
        const session = await api.logIn(token.value);
        token.value = "";
        context.sessionChanged(session);
      } catch (error) {
        if (error.status === 401) error.message = "This token is wrong.";
        if (error.status === 429 && error.retryAfter) error.message += ` Try again in ${error.retryAfter} s.`;
        token.select();
        throw error;
      }
    },
  };
}

function openLogin(context) {
  const { content, ...form } = loginForm(context);
  openDialog({ title: "Log in", ...form }, null, content);
}

export function accountButtons(context) {
  const { login, may_look } = context.session;
  const logOut = () => api.logOut().then(context.sessionChanged, () => {});
  const logInButton = button(login === "usage" ? "Log in as admin" : "Log in", () => openLogin(context), { id: "log-in" });
  const logOutButton = button("Log out", logOut, { id: "log-out" });
  return may_look ? { out: [logInButton], usage: [logInButton, logOutButton], in: [logOutButton] }[login] ?? [] : [];
}

/** The only view without the permission to view. */
export function loginView(context) {
  const { content, ...form } = loginForm(context);
  return {
    element: h("div", { class: "view narrow" }, h("h1", { tabindex: -1 }, "Log in"),
      h("p", {}, "This service shows its figures only after a login."), h("div", { class: "panel" }, requestForm(form, content))),
    title: "Log in",
  };
}
