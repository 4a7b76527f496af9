// Begins everything: who is looking, which view the address names, and the stream that feeds it.
// #pulse[data-live="starting|live|stale|broken|paused|off"], #banner and #degraded (role=status), #account, main[data-view="NAME"].

import * as api from "./api.js";
import { createBoard } from "./board.js";
import { h, say, attribute } from "./dom.js";
import { openLive } from "./live.js";
import { showDegraded } from "./degraded.js";
import { accountButton, loginView } from "./login.js";
import { overviewView } from "./overview.js";
import { policyView } from "./policy.js";
import { keyView } from "./key.js";
import { tryView } from "./try.js";
import { serviceTime } from "./parts.js";
import { span, visible } from "./words.js";

const BACK_FOR_MS = 4000;

const main = document.getElementById("main");
const banner = document.getElementById("banner");
const pulse = document.getElementById("pulse");
const account = document.getElementById("account");

const board = createBoard();
const context = { board, session: null, subject: null, live: null, showKey, sessionChanged, isLive: () => pulse.dataset.live === "live" };
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
  if (name === "login") live.stop();
  else if (!view.ownStream) live.want(view.policy);
  view.update?.();
  if (focus) {
    window.scrollTo(0, 0);
    main.querySelector("h1")?.focus({ preventScroll: true });
  }
}

/** Looks into a key. It is handed over here, never in the address: a key can be a secret. */
function showKey(policy, key) {
  context.subject = { policy, key };
  if (location.hash === "#/key") show(true);
  else location.hash = "#/key";
}

async function loadCatalogue() {
  try {
    const { policies } = await api.policies();
    board.catalogue = new Map(policies.map((policy) => [policy.name, policy]));
    view?.update?.();
  } catch {
    // The overview tells that the service is in trouble; the words come with the next reload of the page or the file.
  }
}

function sessionChanged(session) {
  context.session = session;
  if (!session.may_change) context.subject = null;
  board.overview = null;
  account.replaceChildren(...accountButton(context));
  say(document.getElementById("about"), `Tidegate ${visible(session.version)}`);
  live.stop();
  show(false);
  if (session.may_look) loadCatalogue();
}

function heard(name, data) {
  if (name === "overview") {
    const isOther = board.overview && board.overview.started_ms !== data.started_ms;
    if (isOther && banner.hasChildNodes()) say(banner.lastChild, "Live again. The service was started anew, and its history with it.");
    board.begin(data);
    serviceTime(data.now_ms);
    if (board.catalogue.size === 0) loadCatalogue();
  } else if (name === "tick") {
    board.tick(data);
    serviceTime(data.now_ms);
    if (data.journal?.some(({ kind }) => kind === "reload" || kind === "started")) loadCatalogue();
    if (data.journal?.some(({ kind }) => ["override", "lift", "reset"].includes(kind))) view?.overridesChanged?.();
  }
  if (name === "overview" || name === "tick") {
    showDegraded(data.degraded, data.now_ms);
    view?.update?.();
  }
  else view?.heard?.(name, data);
}

function liveChanged({ state, why }, lastHeard) {
  attribute(pulse, "data-live", state);
  say(pulse, { live: "live", starting: "connecting", paused: "paused", stale: "not live", broken: "not live" }[state]);
  const isBroken = state === "stale" || state === "broken";
  document.body.classList.toggle("stale", isBroken && board.overview !== null);
  pulse.hidden = state === "off";
  if (isBroken) tellBroken(why, lastHeard);
  else if (state === "live") tellBack();
  else if (state === "off") {
    forgetBroken();
    showDegraded([], 0);
  }
}

let told = "";

function tellBroken(why, lastHeard) {
  const silent = Date.now() - lastHeard;
  if (!wasBroken) {
    banner.replaceChildren(h("b", { "aria-hidden": "true" }, "■"), h("span"), h("span", { "aria-hidden": "true", class: "since" }), h("span"));
  }
  wasBroken = true;
  attribute(banner, "data-state", "broken");
  const reason = why?.status === 401 || why?.status === 403 ? "The service wants you to log in. "
    : why?.status === 503 ? `The service refuses the stream: ${visible(why.error ?? "too many pages are open")}. `
    : why && why.status >= 400 ? `The service answered ${why.status}${why.error ? `: ${visible(why.error)}` : ""}. ` : "";
  // Only the first and the last part are for screen readers: seconds that are counted aloud help nobody.
  say(banner.children[1], "Not live: ");
  say(banner.children[2], `last heard ${span(silent)} ago. `);
  say(banner.children[3], `${reason}Trying again…`);
  const kind = String(why?.status ?? "");
  if (kind !== told && (kind === "401" || kind === "403")) askSession();
  told = kind;
}

function forgetBroken() {
  told = "";
  wasBroken = false;
  banner.replaceChildren();
}

/** A login can end while nobody looks, or with the service. */
function askSession() {
  const differs = (session) => JSON.stringify(session) !== JSON.stringify(context.session);
  api.session().then((session) => differs(session) && sessionChanged(session), () => {});
}

function tellBack() {
  told = "";
  if (!wasBroken) return;
  wasBroken = false;
  askSession();
  attribute(banner, "data-state", "back");
  banner.replaceChildren(h("b", { "aria-hidden": "true" }, "✓"), h("span", {}, "Live again."));
  setTimeout(() => {
    if (!wasBroken) banner.replaceChildren();
  }, BACK_FOR_MS);
}

const live = openLive({ heard, changed: liveChanged });
context.live = live;

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", () => context.session && show(true));

async function begin() {
  try {
    sessionChanged(await api.session());
  } catch (error) {
    main.replaceChildren(h("p", {}, `${visible(error.message)} Trying again…`));
    setTimeout(begin, 2000);
  }
}
begin();
