// Tries a limit: bursts and streams of real decisions with a new random key for each algorithm. No figure of the service counts them.
// #try-limit, .algorithms input[value=ALGORITHM], #try-again, buttons data-fire="1|10|50", #try-rate, #try-stream, #try-boundary, #try-status.

import * as api from "./api.js";
import { h, set, setText, animate, button, field } from "./dom.js";
import { lane } from "./lanes.js";
import { ALGORITHMS, count, parseLimit, visible, wait, windowLength } from "./format.js";

const DEFAULT_LIMIT = "10/5s";
const MAX_AT_ONCE = 200;
const MAX_WAITING = 1500;
const FASTEST = 50;
const LEAD_MS = 600;
const AT_A_TIME = 4;

function randomKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  return `try-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

export function tryView() {
  const title = h("h1", { tabindex: -1 }, "Try a limit");
  const run = { limit: null, lanes: [], waiting: 0, stream: null, boundary: null, ended: false };
  // The difference between the clock of the service and the clock of this page, estimated from the fastest response.
  const clock = { aheadMs: Date.now() - performance.now(), quickest: Infinity };
  const serviceMs = () => performance.now() + clock.aheadMs;

  const limit = h("input", { id: "try-limit", type: "text", value: DEFAULT_LIMIT, autocomplete: "off", spellcheck: "false", class: "short", change: restart });
  const burst = h("input", { id: "try-burst", type: "number", min: 1, max: 1000, value: 3, "aria-label": "burst of gcra", change: restart });
  const boxes = [...ALGORITHMS, ["gcra:n", "a burst at once, then an even rate"]].map(([name, remark]) => {
    return { name, remark, box: h("input", { type: "checkbox", id: `try-${name}`, value: name, change: restart, checked: name !== "gcra:n" }) };
  });
  const problem = h("p", { class: "problem", id: "try-problem", role: "alert" });
  const status = h("p", { class: "soft", id: "try-status", role: "status" });
  const lanes = h("div", { class: "lanes", id: "lanes" });
  const axis = h("p", { class: "soft small axis" });
  const results = h("section", { class: "panel", "aria-label": "Admitted and denied requests" }, lanes, axis);
  const perSecond = h("input", { id: "try-rate", type: "number", min: 1, max: FASTEST, value: 5 });
  const streaming = button("Start a stream", toggleStream, { id: "try-stream", "aria-pressed": "false" });
  const boundary = button("Burst across a window boundary", acrossBoundary, { id: "try-boundary" });

  const element = h("div", { class: "view" }, title,
    h("p", { class: "summary" }, "Compare what each algorithm admits. The service makes real decisions for random keys in a separate store: no chart and no metric counts them."),
    h("form", { class: "panel try-form", submit: (event) => { event.preventDefault(); restart(); } },
      field("Limit", limit, "such as 10/5s or 100/1m"),
      h("fieldset", { class: "algorithms" }, h("legend", {}, "Algorithms"), boxes.map(({ name, box }) => h("span", { class: "check" }, box,
        h("label", { for: box.id }, name === "gcra:n" ? "gcra, burst" : name), name === "gcra:n" ? burst : null))),
      problem),
    h("div", { class: "fire panel", role: "group", "aria-label": "Send requests" },
      h("span", { class: "together" }, h("span", {}, "send"), [1, 10, 50].map((n) => button(String(n), () => fire(n), { "data-fire": n, class: "primary", "aria-label": `send ${n}` }))),
      h("span", { class: "together" }, streaming, h("label", { for: "try-rate" }, "of"), perSecond, h("span", {}, "a second")),
      boundary,
      button("Reset", restart, { id: "try-again" }),
      status),
    results);

  function restart() {
    stopStream();
    clearTimeout(run.boundary);
    run.boundary = null;
    const read = parseLimit(limit.value);
    set(limit, { "aria-invalid": read ? null : "true" });
    setText(problem, read ? "" : `“${visible(limit.value)}” is not a valid limit: write a number, a slash and a time, such as 10/5s.`);
    run.limit = read;
    const chosen = read ? boxes.filter(({ box }) => box.checked) : [];
    run.lanes = chosen.map(({ name, remark }) => {
      const algorithm = name === "gcra:n" ? `gcra:${Math.max(1, Math.round(+burst.value) || 1)}` : name;
      return { algorithm, key: randomKey(), lane: lane(algorithm, remark, read) };
    });
    lanes.replaceChildren(...run.lanes.map((one) => one.lane.element));
    results.hidden = run.lanes.length === 0;
    for (const button of element.querySelectorAll(".fire button")) button.disabled = run.lanes.length === 0;
    setText(status, read && run.lanes.length === 0 ? "Select at least one algorithm to send requests." : "");
    if (!read || run.lanes.length === 0) return;
    const tooMany = read.max > MAX_AT_ONCE;
    if (tooMany) setText(status, `A burst across a window boundary needs a limit of at most ${MAX_AT_ONCE} requests.`);
    boundary.disabled ||= tooMany;
    set(boundary, { title: tooMany ? `needs a limit of at most ${MAX_AT_ONCE}` : `${count(read.max)} requests just before an aligned window ends and ${count(read.max)} just after` });
    setText(axis, `Time runs from left to right; ${windowLength(Math.max(3e6, 3 * read.window))} are shown. Vertical lines are the boundaries of aligned windows of ${windowLength(read.window)}. Admitted requests are above the horizontal line, denied requests below it.`);
    frame();
  }

  async function one(target) {
    const sent = performance.now();
    run.waiting++;
    try {
      const decision = await api.tryLimit({ key: target.key, limit: limit.value.trim(), algorithm: target.algorithm });
      const got = performance.now();
      if (decision.charged_at_us && got - sent < clock.quickest) {
        clock.quickest = got - sent;
        clock.aheadMs = decision.charged_at_us / 1000 - (sent + got) / 2;
      }
      target.lane.add(decision.allowed, decision.charged_at_us ?? (got + clock.aheadMs) * 1000);
    } catch (error) {
      stopStream();
      setText(problem, visible(error.message));
    } finally {
      run.waiting--;
    }
  }

  function fire(n) {
    if (run.waiting + n * run.lanes.length > MAX_WAITING) return setText(status, "Still waiting for responses: try again in a moment.");
    const all = [];
    for (let i = 0; i < n; i++) for (const target of run.lanes) all.push(one(target));
    return Promise.all(all);
  }

  function stopStream() {
    clearInterval(run.stream);
    setStream(null);
  }

  function setStream(timer) {
    run.stream = timer;
    setText(streaming, timer ? "Stop the stream" : "Start a stream");
    set(streaming, { "aria-pressed": String(timer !== null) });
  }

  function toggleStream() {
    if (run.stream) return stopStream();
    const n = Math.max(1, Math.min(FASTEST, +perSecond.value || 1));
    fire(1);
    setStream(setInterval(() => fire(1), 1000 / n));
  }

  async function acrossBoundary() {
    if (run.boundary) return;
    // Units spent before would hide the effect of the boundary.
    restart();
    run.boundary = -1;
    // A few decisions with other keys, so that the clock of the service is known before the burst.
    const { lanes: mine } = run;
    for (let i = 0; i < 3; i++) await one({ key: randomKey(), algorithm: "fixed_window", lane: { add() {} } });
    if (mine !== run.lanes || run.ended) return;
    const windowMs = run.limit.window / 1000;
    // Early enough before the edge for all responses: a browser sends only a few requests at a time.
    const taken = (run.limit.max * run.lanes.length * clock.quickest) / AT_A_TIME;
    const lead = Math.min(windowMs * 0.4, Math.max(LEAD_MS, 3 * taken));
    const edge = Math.ceil((serviceMs() + lead + 60) / windowMs) * windowMs;
    const { max } = run.limit;
    setText(status, `${count(max)} just before the boundary in ${wait(edge - serviceMs())}, and ${count(max)} just after.`);
    run.boundary = setTimeout(async () => {
      const before = fire(max);
      run.boundary = setTimeout(async () => {
        await before;
        await fire(max);
        run.boundary = null;
        setText(status, boundaryResult());
      }, Math.max(0, edge + 40 - serviceMs()));
    }, Math.max(0, edge - lead - serviceMs()));
  }

  function boundaryResult() {
    const over = run.lanes.map(({ algorithm, lane }) => [algorithm, lane.showTotals()]).filter(([, maximum]) => maximum > run.limit.max);
    if (over.length === 0) return "Across the boundary, no algorithm admitted more than the limit in a window.";
    return `The limit is ${count(run.limit.max)}. Across the boundary, ${over.map(([algorithm, maximum]) => `${algorithm} admitted ${count(maximum)}`).join(", ")}.`;
  }

  const frame = () => run.lanes.forEach(({ lane }) => lane.frame(serviceMs() * 1000));
  restart();
  const stopAnimation = animate(frame);

  return {
    element,
    title: "Try",
    stop() {
      run.ended = true;
      stopAnimation();
      stopStream();
      clearTimeout(run.boundary);
    },
  };
}
