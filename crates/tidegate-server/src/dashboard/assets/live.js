// The stream of events, kept alive: tells `heard(name, data)` what comes and `changed(state)` how it stands:
// "live", "stale" (connected, but silent), "broken" (with `why`), "paused" (the page is not being looked at), "off".

import { subject, whyNoStream } from "./api.js";

const SILENCE_MS = 3500;
const PAUSE_AFTER_MS = 10_000;
const WAITS_S = [1, 2, 4, 5];
const EVENTS = ["overview", "tick", "hits", "key", "problem"];

export function openLive({ heard, changed }) {
  let source = null;
  let path = null;
  let attempts = 0;
  let retry = null;
  let pause = null;
  let lastHeard = Date.now();
  let now = { state: "starting", why: null };

  function become(state, why = null) {
    now = { state, why };
    changed(now, lastHeard);
  }

  function close() {
    source?.close();
    source = null;
    clearTimeout(retry);
  }

  function connect() {
    close();
    if (path === null) return;
    const opened = new EventSource(path);
    source = opened;
    for (const name of EVENTS) opened.addEventListener(name, (event) => {
      if (opened === source) take(name, event.data);
    });
    opened.onerror = () => {
      if (opened === source) broke(opened);
    };
  }

  function take(name, text) {
    let data;
    try {
      data = JSON.parse(text);
    } catch {
      return;
    }
    lastHeard = Date.now();
    attempts = 0;
    if (now.state !== "live") become("live");
    heard(name, data);
  }

  async function broke(opened) {
    const asking = path;
    opened.close();
    if (now.state !== "broken") become("broken", now.why);
    const seconds = WAITS_S[Math.min(attempts++, WAITS_S.length - 1)];
    clearTimeout(retry);
    retry = setTimeout(connect, seconds * 1000);
    // An event source does not report its status, and a refusal must be distinguished from no answer.
    const why = await whyNoStream(asking);
    if (opened === source && now.state !== "live") become("broken", why);
  }

  function watch() {
    if (now.state === "paused" || path === null) return;
    if ((now.state === "live" || now.state === "starting") && Date.now() - lastHeard > SILENCE_MS) become("stale");
    else if (now.state === "stale" && Date.now() - lastHeard > 3 * SILENCE_MS) {
      connect();
      become("broken");
    } else if (now.state === "broken" || now.state === "stale") changed(now, lastHeard);
  }
  setInterval(watch, 500);

  // A page in the background would hold one of the few connections a browser has for a site.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(pause);
    if (document.hidden) {
      pause = setTimeout(() => {
        close();
        become("paused");
      }, PAUSE_AFTER_MS);
    } else if (now.state === "paused") {
      lastHeard = Date.now();
      become("starting");
      connect();
    }
  });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => event.persisted && connect());

  return {
    /** Listens for a policy, or a key of it, in addition to the overview. */
    want(policy, key) {
      const wanted = `/v1/live${subject(policy, key)}`;
      if (wanted === path && source && source.readyState !== EventSource.CLOSED) return;
      if (path === null) {
        lastHeard = Date.now();
        become("starting");
      }
      path = wanted;
      attempts = 0;
      if (now.state !== "paused") connect();
    },
    stop() {
      path = null;
      close();
      become("off");
    },
  };
}
