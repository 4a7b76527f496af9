// Starts the page: the session, the view that the address names, and the event stream.
// #pulse[data-live="starting|live|stale|broken|paused|off"], #banner and #degraded (role=status), #account, main[data-view="NAME"].

import * as api from "./api.js";
import { createDashboard } from "./dashboard.js";
import { h, setText, attribute } from "./dom.js";
import { openStream } from "./stream.js";
import { showDegraded } from "./degraded.js";
import { accountButton, loginView } from "./login.js";
import { overviewView } from "./overview.js";
import { policyView } from "./policy.js";
import { keyView } from "./key.js";
import { tryView } from "./try.js";
import { setServiceTime } from "./widgets.js";
import { span, visible } from "./format.js";

const RECONNECTED_MS = 4000;

const main = document.getElementById("main");
const banner = document.getElementById("banner");
const pulse = document.getElementById("pulse");
const account = document.getElementById("account");

const dashboard = createDashboard();
const context = { dashboard, session: null, subject: null, stream: null, showKey, sessionChanged, isLive: () => pulse.dataset.live === "live" };
let view = null;
let wasBroken = false;

function route() {
  const path = location.hash.replace(/^#/, "");
  const policy = /^\/policy\/(.+)$/.exec(path);
  if (policy) {
    try {
      return ["policy", decodeURIComponent(policy[1])];
    } catch {
      return ["overview"];
    }
  }
  return path === "/key" ? ["key"] : path === "/try" ? ["try"] : ["overview"];
}

const VIEWS = { overview: overviewView, policy: policyView, key: keyView, try: tryView };

function show(focus) {
  view?.stop?.();
  const [name, argument] = context.session.may_look ? route() : ["login"];
  view = name === "login" ? loginView(context) : VIEWS[name](context, argument);
  main.dataset.view = name;
  main.replaceChildren(view.element);
  document.title = `${visible(view.title)} – Tidegate`;
  for (const link of document.querySelectorAll("nav a")) {
    attribute(link, "aria-current", link.dataset.view === name ? "page" : link.dataset.view === "overview" && name === "policy" ? "true" : null);
  }
  document.querySelector("nav").hidden = name === "login";
  if (name === "login") stream.stop();
  else if (!view.ownStream) stream.subscribe(view.policy);
  view.update?.();
  if (focus) {
    window.scrollTo(0, 0);
    main.querySelector("h1")?.focus({ preventScroll: true });
  }
}

/** Shows a key. The key is never part of the address, because it can be a secret. */
function showKey(policy, key) {
  context.subject = { policy, key };
  if (location.hash === "#/key") show(true);
  else location.hash = "#/key";
}

async function loadCatalogue() {
  try {
    const { policies } = await api.policies();
    dashboard.catalogue = new Map(policies.map((policy) => [policy.name, policy]));
    view?.update?.();
  } catch {
    // The overview shows the error. The catalogue is loaded again with the next reload of the page or the file.
  }
}

function sessionChanged(session) {
  context.session = session;
  if (!session.may_change) context.subject = null;
  dashboard.overview = null;
  account.replaceChildren(...accountButton(context));
  setText(document.getElementById("about"), `Tidegate ${visible(session.version)}`);
  stream.stop();
  show(false);
  if (session.may_look) loadCatalogue();
}

function onEvent(name, data) {
  if (name === "overview") {
    const isOther = dashboard.overview && dashboard.overview.started_ms !== data.started_ms;
    if (isOther && banner.hasChildNodes()) setText(banner.lastChild, "Live again. The service was restarted, and its history is new.");
    dashboard.replace(data);
    setServiceTime(data.now_ms);
    if (dashboard.catalogue.size === 0) loadCatalogue();
  } else if (name === "tick") {
    dashboard.tick(data);
    setServiceTime(data.now_ms);
    if (data.journal?.some(({ kind }) => kind === "reload" || kind === "started")) loadCatalogue();
    if (data.journal?.some(({ kind }) => ["override", "lift", "reset"].includes(kind))) view?.overridesChanged?.();
  }
  if (name === "overview" || name === "tick") {
    showDegraded(data.degraded, data.now_ms);
    view?.update?.();
  }
  else view?.onEvent?.(name, data);
}

function streamChanged({ state, why }, lastEventMs) {
  attribute(pulse, "data-live", state);
  setText(pulse, { live: "live", starting: "connecting", paused: "paused", stale: "not live", broken: "not live" }[state]);
  const isBroken = state === "stale" || state === "broken";
  document.body.classList.toggle("stale", isBroken && dashboard.overview !== null);
  pulse.hidden = state === "off";
  if (isBroken) showBroken(why, lastEventMs);
  else if (state === "live") showReconnected();
  else if (state === "off") {
    clearBroken();
    showDegraded([], 0);
  }
}

let lastStatus = "";

function showBroken(why, lastEventMs) {
  const silent = Date.now() - lastEventMs;
  if (!wasBroken) {
    banner.replaceChildren(h("b", { "aria-hidden": "true" }, "■"), h("span"), h("span", { "aria-hidden": "true", class: "since" }), h("span"));
  }
  wasBroken = true;
  attribute(banner, "data-state", "broken");
  const reason = why?.status === 401 || why?.status === 403 ? "The service requires a login. "
    : why?.status === 503 ? `The service refuses the stream: ${visible(why.error ?? "too many pages are open")}. `
    : why && why.status >= 400 ? `The service answered ${why.status}${why.error ? `: ${visible(why.error)}` : ""}. ` : "";
  // Screen readers get only the first and the last part, because a running count of seconds is noise.
  setText(banner.children[1], "Not live: ");
  setText(banner.children[2], `last update ${span(silent)} ago. `);
  setText(banner.children[3], `${reason}Trying again…`);
  const kind = String(why?.status ?? "");
  if (kind !== lastStatus && (kind === "401" || kind === "403")) reloadSession();
  lastStatus = kind;
}

function clearBroken() {
  lastStatus = "";
  wasBroken = false;
  banner.replaceChildren();
}

/** Reloads the session: a login can expire or end with a restart of the service. */
function reloadSession() {
  const differs = (session) => JSON.stringify(session) !== JSON.stringify(context.session);
  api.session().then((session) => differs(session) && sessionChanged(session), () => {});
}

function showReconnected() {
  lastStatus = "";
  if (!wasBroken) return;
  wasBroken = false;
  reloadSession();
  attribute(banner, "data-state", "back");
  banner.replaceChildren(h("b", { "aria-hidden": "true" }, "✓"), h("span", {}, "Live again."));
  setTimeout(() => {
    if (!wasBroken) banner.replaceChildren();
  }, RECONNECTED_MS);
}

const stream = openStream({ onEvent, onChange: streamChanged });
context.stream = stream;

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", () => context.session && show(true));

async function start() {
  try {
    sessionChanged(await api.session());
  } catch (error) {
    main.replaceChildren(h("p", {}, `${visible(error.message)} Trying again…`));
    setTimeout(start, 2000);
  }
}
start();
