// Trying a limit: bursts and streams of real decisions under a fresh random key for each algorithm.
// #try-limit, .algorithms input[value=ALGORITHM], #try-again, buttons data-fire="1|10|50", #try-rate, #try-stream, #try-boundary, #try-says.

import * as api from "./api.js";
import { h, say, attribute, field } from "./dom.js";
import { lane } from "./lanes.js";
import { ALGORITHMS, count, readLimit, visible, wait, windowLength } from "./words.js";

const DEFAULT_LIMIT = "10/5s";
const MOST_AT_ONCE = 200;
const MOST_WAITING = 1500;
const FASTEST = 50;
const LEAD_MS = 600;
const AT_A_TIME = 4;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

function randomKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  return `try-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

export function tryView({ session }) {
  const title = h("h1", { tabindex: -1 }, "Try a limit");
  if (!session.caller_limits) {
    return { title: "Try", element: h("div", { class: "view" }, title,
      h("p", { class: "note", id: "try-off" }, "The service's settings turned this off: requests may not bring limits of their own (caller_limits = false).")) };
  }

  const run = { limit: null, lanes: [], waiting: 0, stream: null, boundary: null, ended: false };
  // How far the service's clock is ahead of this page's, known best from the quickest answer.
  const clock = { aheadMs: Date.now() - performance.now(), quickest: Infinity };
  const serviceMs = () => performance.now() + clock.aheadMs;

  const limit = h("input", { id: "try-limit", type: "text", value: DEFAULT_LIMIT, autocomplete: "off", spellcheck: "false", class: "short", change: renew });
  const burst = h("input", { id: "try-burst", type: "number", min: 1, max: 1000, value: 3, "aria-label": "burst of gcra", change: renew });
  const boxes = [...ALGORITHMS, ["gcra:n", "a burst, then evenly"]].map(([name, remark]) => {
    const box = h("input", { type: "checkbox", id: `try-${name}`, value: name, change: renew });
    box.checked = name !== "gcra:n";
    return { name, remark, box };
  });
  const problem = h("p", { class: "problem", id: "try-problem", role: "alert" });
  const saying = h("p", { class: "soft", id: "try-says", role: "status" });
  const lanes = h("div", { class: "lanes", id: "lanes" });
  const axis = h("p", { class: "soft small axis" });
  const perSecond = h("input", { id: "try-rate", type: "number", min: 1, max: FASTEST, value: 5 });
  const streaming = h("button", { type: "button", id: "try-stream", "aria-pressed": "false", click: toggleStream }, "Start a stream");
  const boundary = h("button", { type: "button", id: "try-boundary", click: acrossBoundary }, "Burst across a window’s boundary");

  const element = h("div", { class: "view" }, title,
    h("p", { class: "gist" }, "What would each algorithm admit? These are real decisions of this service with random keys that nobody uses."),
    h("form", { class: "panel try-form", submit: (event) => { event.preventDefault(); renew(); } },
      field("Limit", limit, "such as 10/5s or 100/1m"),
      h("fieldset", { class: "algorithms" }, h("legend", {}, "Algorithms"), boxes.map(({ name, box }) => h("span", { class: "check" }, box,
        h("label", { for: box.id }, name === "gcra:n" ? "gcra, burst" : name), name === "gcra:n" ? burst : null))),
      problem),
    h("div", { class: "fire panel", role: "group", "aria-label": "Fire" },
      h("span", { class: "together" }, h("span", {}, "fire"), [1, 10, 50].map((n) => h("button", { type: "button", "data-fire": n, class: "primary", "aria-label": `fire ${n}`, click: () => fire(n) }, String(n)))),
      h("span", { class: "together" }, streaming, h("label", { for: "try-rate" }, "of"), perSecond, h("span", {}, "a second")),
      boundary,
      h("button", { type: "button", id: "try-again", click: renew }, "Begin anew"),
      saying),
    h("section", { class: "panel", "aria-label": "What was admitted" }, lanes, axis));

  function renew() {
    stopStream();
    clearTimeout(run.boundary);
    run.boundary = null;
    const read = readLimit(limit.value);
    attribute(limit, "aria-invalid", read ? null : "true");
    say(problem, read ? "" : `“${visible(limit.value)}” is no limit that can be read here: write a number, a slash and a time, such as 10/5s.`);
    say(saying, "");
    run.limit = read;
    const chosen = read ? boxes.filter(({ box }) => box.checked) : [];
    run.lanes = chosen.map(({ name, remark }) => {
      const algorithm = name === "gcra:n" ? `gcra:${Math.max(1, Math.round(+burst.value) || 1)}` : name;
      return { algorithm, key: randomKey(), lane: lane(algorithm, remark, read) };
    });
    lanes.replaceChildren(...run.lanes.map((one) => one.lane.element));
    for (const button of element.querySelectorAll(".fire button")) button.disabled = run.lanes.length === 0;
    if (!read) return say(axis, "");
    const tooMany = read.max > MOST_AT_ONCE;
    boundary.disabled ||= tooMany;
    attribute(boundary, "title", tooMany ? `needs a limit of at most ${MOST_AT_ONCE}` : `${count(read.max)} just before an aligned window ends and ${count(read.max)} just after`);
    say(axis, `Time runs to the right, ${windowLength(Math.max(3e6, 3 * read.window))} are shown. Vertical lines are the edges of aligned windows of ${windowLength(read.window)}. Admitted above the line, denied below.`);
    frame();
  }

  async function one(target) {
    const sent = performance.now();
    run.waiting++;
    try {
      const decision = await api.check({ key: target.key, limits: [limit.value.trim()], algorithm: target.algorithm, cost: 1 });
      const got = performance.now();
      if (decision.charged_at_us && got - sent < clock.quickest) {
        clock.quickest = got - sent;
        clock.aheadMs = decision.charged_at_us / 1000 - (sent + got) / 2;
      }
      target.lane.add(decision.allowed, decision.charged_at_us ?? (got + clock.aheadMs) * 1000);
    } catch (error) {
      stopStream();
      say(problem, visible(error.message));
    } finally {
      run.waiting--;
    }
  }

  function fire(n) {
    if (run.waiting + n * run.lanes.length > MOST_WAITING) return say(saying, "Still waiting for responses: try again in a moment.");
    const all = [];
    for (let i = 0; i < n; i++) for (const target of run.lanes) all.push(one(target));
    return Promise.all(all);
  }

  function stopStream() {
    clearInterval(run.stream);
    run.stream = null;
    say(streaming, "Start a stream");
    attribute(streaming, "aria-pressed", "false");
  }

  function toggleStream() {
    if (run.stream) return stopStream();
    const n = Math.max(1, Math.min(FASTEST, +perSecond.value || 1));
    say(streaming, "Stop the stream");
    attribute(streaming, "aria-pressed", "true");
    fire(1);
    run.stream = setInterval(() => fire(1), 1000 / n);
  }

  async function acrossBoundary() {
    if (run.boundary) return;
    // What was spent before would hide what the boundary does.
    renew();
    run.boundary = -1;
    // One decision under a key of its own, so that the service's clock is known before it matters.
    const { lanes: mine } = run;
    for (let i = 0; i < 3; i++) await one({ key: randomKey(), algorithm: "fixed_window", lane: { add() {} } });
    if (mine !== run.lanes || run.ended) return;
    const windowMs = run.limit.window / 1000;
    // Long enough before the edge for all of them to be answered: a browser asks only a few at a time.
    const taken = (run.limit.max * run.lanes.length * clock.quickest) / AT_A_TIME;
    const lead = Math.min(windowMs * 0.4, Math.max(LEAD_MS, 3 * taken));
    const edge = Math.ceil((serviceMs() + lead + 60) / windowMs) * windowMs;
    const { max } = run.limit;
    say(saying, `${count(max)} just before the boundary in ${wait(edge - serviceMs())}, and ${count(max)} just after.`);
    run.boundary = setTimeout(async () => {
      const before = fire(max);
      run.boundary = setTimeout(async () => {
        await before;
        await fire(max);
        run.boundary = null;
        say(saying, verdict());
      }, Math.max(0, edge + 40 - serviceMs()));
    }, Math.max(0, edge - lead - serviceMs()));
  }

  function verdict() {
    for (const { lane } of run.lanes) lane.tell();
    const over = run.lanes.filter(({ lane }) => lane.element.querySelector("[data-figure=most]").dataset.value > run.limit.max);
    if (over.length === 0) return "Across the boundary, none of them admitted more than the limit in a window.";
    return `Across the boundary, more than the limit of ${count(run.limit.max)}: ${over.map(({ algorithm, lane }) => `${algorithm} admitted ${lane.element.querySelector("[data-figure=most]").textContent}`).join(", ")}.`;
  }

  let drawn = 0;
  function frame() {
    for (const { lane } of run.lanes) lane.frame(serviceMs() * 1000);
  }
  function loop(now) {
    if (run.ended) return;
    requestAnimationFrame(loop);
    if (now - drawn < (calm.matches ? 1000 : 30)) return;
    drawn = now;
    frame();
  }
  renew();
  requestAnimationFrame(loop);

  return {
    element,
    title: "Try",
    stop() {
      run.ended = true;
      stopStream();
      clearTimeout(run.boundary);
    },
  };
}
