// The event stream with reconnects. `onEvent(name, data)` receives each event, and `onChange(state)` each change of the state:
// "live", "stale" (connected, without events), "broken" (with `why`), "paused" (the page is hidden) or "off". `onRefused(why)` is
// called if the service refuses what the stream asks for, such as an unknown policy: it is up, so this is not an outage.

import { subjectQuery, streamError } from "./api.js";

const STALE_AFTER_MS = 3500;
const PAUSE_AFTER_MS = 10_000;
const RETRY_DELAYS_S = [1, 2, 4, 5];
const EVENTS = ["overview", "tick", "hits", "key", "denials", "policies", "problem"];
const REFUSALS = [400, 404, 422];

export function openStream({ onEvent, onChange, onRefused }) {
  let source = null;
  let path = null;
  let attempts = 0;
  let retry = null;
  let pause = null;
  let lastEventMs = Date.now();
  let now = { state: "starting", why: null };

  function setState(state, why = null) {
    now = { state, why };
    onChange(now, lastEventMs);
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
    for (const name of EVENTS) opened.addEventListener(name, ({ data }) => opened === source && receive(name, JSON.parse(data)));
    opened.onerror = () => opened === source && reconnect(opened);
  }

  function receive(name, data) {
    lastEventMs = Date.now();
    attempts = 0;
    if (now.state !== "live") setState("live");
    onEvent(name, data);
  }

  async function reconnect(opened) {
    const failedPath = path;
    opened.close();
    const seconds = RETRY_DELAYS_S[Math.min(attempts++, RETRY_DELAYS_S.length - 1)];
    clearTimeout(retry);
    retry = setTimeout(connect, seconds * 1000);
    // An event source does not report its status, and a refusal must be distinguished from no answer.
    const why = await streamError(failedPath);
    if (opened !== source || path !== failedPath) return;
    if (REFUSALS.includes(why.status)) {
      close();
      path = null;
      onRefused(why);
    } else setState("broken", why);
  }

  function watch() {
    const silentMs = Date.now() - lastEventMs;
    if (["live", "starting"].includes(now.state) && silentMs > STALE_AFTER_MS) setState("stale");
    else if (now.state === "stale" && silentMs > 3 * STALE_AFTER_MS) {
      connect();
      setState("broken");
    } else if (["broken", "stale"].includes(now.state)) onChange(now, lastEventMs);
  }
  setInterval(watch, 500);

  // A hidden page would keep one of the few connections that a browser opens to a site.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(pause);
    if (document.hidden) {
      pause = setTimeout(() => {
        close();
        setState("paused");
      }, PAUSE_AFTER_MS);
    } else if (now.state === "paused") {
      lastEventMs = Date.now();
      setState("starting");
      connect();
    }
  });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => event.persisted && connect());

  return {
    /** Subscribes to a policy, or to a key of it, in addition to the overview. */
    subscribe(subject = {}) {
      const target = `/v1/live${subjectQuery(subject)}`;
      if (target === path && source && source.readyState !== EventSource.CLOSED) return;
      if (path === null) {
        lastEventMs = Date.now();
        setState("starting");
      }
      path = target;
      attempts = 0;
      if (now.state !== "paused") connect();
    },
    stop() {
      path = null;
      close();
      setState("off");
    },
  };
}
