// Starts the page: the session, the view that the address names, and the event stream.
// #pulse[data-live="starting|live|stale|broken|paused|off"], #account, main[data-view="NAME"].

import * as api from "./api.js";
import { hideConnection, showBroken, showDegraded, showReconnected } from "./banners.js";
import { createDashboard } from "./dashboard.js";
import { h, set, setText, setServiceTime } from "./dom.js";
import { openStream } from "./stream.js";
import { accountButtons, loginView } from "./login.js";
import { overviewView } from "./overview.js";
import { policyView } from "./policy.js";
import { keyView } from "./key.js";
import { tryView } from "./try.js";
import { visible } from "./format.js";

const VIEWS = { overview: overviewView, policy: policyView, key: keyView, try: tryView, login: loginView };

const main = document.getElementById("main");
const pulse = document.getElementById("pulse");
const account = document.getElementById("account");

const dashboard = createDashboard();
const context = { dashboard, session: null, stream: null, sessionChanged, connection, reload: () => show(false), isLive: () => pulse.dataset.live === "live" };
let view = null;
let wasBroken = false;
let lastStatus = null;
let down = null;

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [name, ...rest] = path.split("/");
  if (name === "key") return ["key", api.parseSubject(query ?? "")];
  try {
    if (name === "policy" && rest.length > 0) return ["policy", decodeURIComponent(rest.join("/"))];
  } catch {
    // The address has a malformed escape.
  }
  return [name === "try" && rest.length === 0 ? name : "overview"];
}

function show(focus) {
  view?.stop?.();
  const [name, argument] = context.session.may_look ? route() : ["login"];
  view = VIEWS[name](context, argument);
  main.dataset.view = name;
  main.replaceChildren(view.element);
  document.title = `${visible(view.title)} – Tidegate`;
  for (const link of document.querySelectorAll("nav a")) {
    set(link, { "aria-current": link.dataset.view === name ? "page" : link.dataset.view === "overview" && name === "policy" ? "true" : null });
  }
  document.querySelector("nav").hidden = name === "login";
  if (name === "login") stream.stop();
  else if (!view.ownStream) stream.subscribe({ policy: view.policy });
  view.update?.();
  if (focus) {
    window.scrollTo(0, 0);
    main.querySelector("h1")?.focus({ preventScroll: true });
  }
}

/** Returns null if the service answers, otherwise the time of the last figures. */
function connection() {
  return down;
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
  dashboard.overview = null;
  account.replaceChildren(...accountButtons(context));
  setText(document.getElementById("about"), `Tidegate ${visible(session.version)}`);
  stream.stop();
  show(false);
  if (session.may_look) loadCatalogue();
}

/** Reloads the session: a login can expire or end with a restart of the service. */
function reloadSession() {
  const differs = (session) => JSON.stringify(session) !== JSON.stringify(context.session);
  api.session().then((session) => differs(session) && sessionChanged(session), () => {});
}

function onEvent(name, data) {
  if (name !== "overview" && name !== "tick") return view?.onEvent?.(name, data);
  if (name === "overview") {
    const hasRestarted = dashboard.overview && dashboard.overview.started_ms !== data.started_ms;
    if (hasRestarted) showReconnected("The service was restarted, so the history starts again.");
    dashboard.replace(data);
    if (dashboard.catalogue.size === 0) loadCatalogue();
  } else {
    dashboard.tick(data);
    const happened = (...kinds) => data.journal.some(({ kind }) => kinds.includes(kind));
    if (happened("reload", "started")) loadCatalogue();
    if (happened("override", "ban", "exemption", "lift", "reset")) view?.overridesChanged?.();
  }
  setServiceTime(data.now_ms);
  showDegraded(data.degraded, data.now_ms);
  view?.update?.();
}

function streamChanged({ state, why }, lastEventMs) {
  set(pulse, { "data-live": state });
  setText(pulse, { live: "live", starting: "connecting", paused: "paused", stale: "not live", broken: "not live" }[state] ?? "");
  pulse.hidden = state === "off";
  const isBroken = state === "stale" || state === "broken";
  down = isBroken ? { lastEventMs } : null;
  document.body.classList.toggle("stale", isBroken && dashboard.overview !== null);
  if (isBroken) {
    showBroken(why, Date.now() - lastEventMs);
    if (why?.status !== lastStatus && [401, 403].includes(why?.status)) reloadSession();
    lastStatus = why?.status;
  } else if (state === "live" && wasBroken) {
    showReconnected("");
    reloadSession();
  } else if (state === "off") {
    hideConnection();
    showDegraded([], 0);
  }
  if (["live", "off"].includes(state)) lastStatus = null;
  view?.connectionChanged?.();
  wasBroken = isBroken || (wasBroken && !["live", "off"].includes(state));
}

/** The service is up and refuses the subject of the view: the view says so, and the other figures stay live. */
function refused(why) {
  view?.refused?.(why);
  stream.subscribe();
}

const stream = openStream({ onEvent, onChange: streamChanged, onRefused: refused });
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
