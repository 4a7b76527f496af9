// The view of one key: its window to scale, the units in use, the waiting times, and the actions.
// #key-form, #key-policy, .part inputs; #key-limits section data-limit="60/1m" with data-figure="used|remaining|next_free|reset";
// #key-override; buttons data-action="reset|override|lift"; #overrides rows data-policy data-label.

import * as api from "./api.js";
import { confirmRemoveOverride, confirmOverride, confirmReset } from "./actions.js";
import { h, set, setText, rows, ago, animate, button, field, figure, foldedTable, hiddenCaption, keyElement, offer, panel, setFigure, table } from "./dom.js";
import { timeline } from "./timeline.js";
import { kindOf, nextFreeMs, usedAt } from "./meter.js";
import { clockTime, count, fullTime, overrideText, plural, untilText, visible, wait } from "./format.js";

const MAX_PARTS = 8;
const LISTED = 200;

const HOW = {
  sliding_log: "Each mark is an admitted request, and the band is the window. A request counts until the left edge of the band passes it.",
  sliding_counter: "The two blocks are the current and the previous aligned window. The part of the previous one inside the band still counts.",
  sliding_buckets: "Each block is a bucket. The left edge of the band moves in steps of a bucket, and a bucket counts until the edge passes it.",
  fixed_window: "The block is the current aligned window. At its end, all units are free again.",
  gcra: "Each request increases the debt, and time reduces it. The drawing shows how the debt decreases without further requests.",
};

const stamp = (us) => `${clockTime(us / 1000)}.${String(Math.floor(us / 1000) % 1000).padStart(3, "0")}`;

export function keyView(context) {
  const { dashboard, session, stream } = context;
  let subject = session.may_change ? context.subject : null;
  let current = null;
  let receivedAt = 0;

  const policy = h("select", { id: "key-policy", required: true });
  const parts = h("div", { class: "parts" });
  const addPart = button("add a part", () => part("").focus(), { id: "add-part" });
  const form = h("form", {
    id: "key-form", class: "search panel",
    submit(event) {
      event.preventDefault();
      const values = [...parts.querySelectorAll("input")].map((input) => input.value);
      inspect({ policy: policy.value, key: values.length === 1 ? values[0] : values });
    },
  }, field("Policy", policy), parts, h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Inspect"), addPart));

  const problem = h("p", { class: "note", id: "key-problem", role: "alert", hidden: true });
  const outcome = h("p", { class: "note good", id: "key-done", role: "status" });
  const heading = h("h2", { id: "key-h" });
  const sentence = h("p", { class: "summary", id: "key-summary" });
  const overrideNote = h("p", { class: "note calm", id: "key-override", hidden: true });
  const actions = h("div", { class: "actions" },
    button("Reset…", () => act(confirmReset), { "data-action": "reset" }),
    button("Override…", () => act(confirmOverride), { "data-action": "override" }),
    button("Remove the override…", () => act(confirmRemoveOverride), { "data-action": "lift" }));
  const limits = h("div", { id: "key-limits" });
  const result = h("section", { "aria-labelledby": "key-h", hidden: true }, heading, sentence, overrideNote, actions, limits);
  const overrideRows = h("tbody", { id: "overrides" });
  const noOverrides = h("p", { class: "soft" }, "There are none.");
  const overrideTable = table({ class: "fold" }, hiddenCaption("Active overrides"),
    ["policy", "key", "override", "until", "note", h("span", { class: "unseen" }, "action")], overrideRows);

  const element = h("div", { class: "view" }, h("h1", { tabindex: -1 }, "Key"),
    session.may_change ? [form, problem, outcome, result, panel("Active overrides", noOverrides, overrideTable)]
      : h("p", { class: "note" }, session.login === "out" ? "Log in to inspect, reset and override keys." : "This token permits viewing the figures only. Inspecting keys needs the admin token."));

  function part(value) {
    const n = parts.children.length;
    const input = h("input", { type: "text", class: "part", autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
    input.value = value;
    const row = field(n === 0 ? "Key" : `Part ${n + 1}`, input);
    const remove = () => {
      row.remove();
      addPart.hidden = false;
      addPart.focus();
    };
    if (n > 0) row.append(button("✕", remove, { class: "quiet", "aria-label": `remove part ${n + 1}` }));
    parts.append(row);
    addPart.hidden = parts.children.length >= MAX_PARTS;
    return input;
  }

  const offerPolicies = () => offer(policy, [...dashboard.catalogue.keys()], subject?.policy);

  function inspect(target) {
    subject = target;
    context.subject = target;
    current = null;
    limits.replaceChildren();
    limits.known?.clear();
    result.hidden = true;
    problem.hidden = true;
    setText(outcome, "");
    stream.subscribe(target.policy, target.key);
  }

  const act = (confirm) => change(confirm, { ...subject, label: current.label, now: current });

  async function change(confirm, changed) {
    const done = await confirm(changed, dashboard.catalogue.get(changed.policy));
    if (!done) return;
    setText(outcome, done);
    listOverrides();
  }

  async function listOverrides() {
    if (!session.may_change) return;
    try {
      drawOverrides((await api.overrides()).overrides);
    } catch (error) {
      noOverrides.hidden = false;
      setText(noOverrides, `The list of overrides is not available: ${visible(error.message)}`);
    }
  }

  function drawOverrides(list) {
    overrideTable.hidden = list.length === 0;
    noOverrides.hidden = list.length > 0;
    setText(noOverrides, "There are none.");
    rows(overrideRows, list, (one) => JSON.stringify(one), ({ policy, key, label, override }) => {
      const remove = () => change(confirmRemoveOverride, { policy, key, label, now: { override } });
      const { until_ms, note } = override;
      return h("tr", { "data-policy": policy, "data-label": visible(label) },
        h("td", { "data-column": "policy" }, visible(policy)),
        h("th", { scope: "row" }, key === null ? keyElement(label || "hidden") : button(keyElement(label), () => context.showKey(policy, key), { class: "link" })),
        h("td", { "data-column": "override" }, overrideText(override)),
        h("td", { "data-column": "until" }, until_ms === null ? "permanently" : h("time", { datetime: new Date(until_ms).toISOString() }, fullTime(until_ms))),
        h("td", { "data-column": "note", class: "note-text" }, h("bdi", {}, visible(note) || "–")),
        h("td", {}, key !== null && button("Remove…", remove, { "data-action": "lift" })));
    });
  }

  function limitCard({ limit }) {
    const figures = {
      used: figure("used", "used"),
      remaining: figure("remaining", "remaining"),
      next_free: figure("next_free", "next unit free in"),
      reset: figure("reset", "all units free in"),
    };
    const meter = h("div", { class: "meter", "aria-hidden": "true" }, h("i"));
    const list = h("tbody");
    const folded = foldedTable(`entries counted under ${limit}`, () => drawEntries(card),
      table({}, h("caption", {}, "Counted entries, newest first"), ["from", "to", ["units", "n"]], list));
    const card = h("section", { class: "panel limit", "data-limit": limit, "aria-label": `limit ${visible(limit)}` },
      h("h3", {}, visible(limit)), h("dl", { class: "tiles few" }, Object.values(figures)), meter, h("div", { class: "slot" }), h("p", { class: "soft small" }), folded);
    return Object.assign(card, { figures, meter, folded, list });
  }

  function drawEntries(card) {
    if (!card.folded.open || !card.now) return;
    card.list.replaceChildren(...card.now.entries.slice(-LISTED).reverse().map((entry) => h("tr", {},
      h("th", { scope: "row" }, stamp(entry.first_us)), h("td", {}, entry.first_us === entry.last_us ? "the same" : stamp(entry.last_us)), h("td", { class: "n" }, count(entry.units)))));
  }

  function drawKey(shown) {
    current = shown;
    receivedAt = performance.now();
    result.hidden = false;
    result.classList.remove("old");
    problem.hidden = true;
    const subjectId = JSON.stringify([shown.policy, shown.label]);
    if (heading.dataset.subject !== subjectId) {
      heading.dataset.subject = subjectId;
      heading.replaceChildren(h("bdi", { class: "key whole" }, visible(shown.label)), h("span", { class: "soft under" }, ` under ${visible(shown.policy)}`));
    }
    setText(sentence, summaryText(shown));
    drawOverride(shown.override);
    actions.querySelector("[data-action=lift]").hidden = shown.override === null;
    rows(limits, shown.limits, (limit, i) => `${i} ${limit.limit} ${shown.algorithm}`, limitCard, (card, limit) => {
      if (!card.drawing) {
        card.drawing = timeline(limit, shown.algorithm);
        card.querySelector(".slot").append(card.drawing.element);
      }
      card.now = limit;
      card.drawing.update(limit, shown.now_us);
      setText(card.querySelector("p"), `${HOW[kindOf(shown.algorithm)] ?? ""}${limit.unlisted ? ` ${plural(limit.unlisted, "older entry", "older entries")} not drawn.` : ""}`);
      card.folded.hidden = limit.entries.length === 0;
      drawEntries(card);
    });
    frame();
  }

  function summaryText(shown) {
    const by = `The algorithm is ${visible(shown.algorithm)}.${shown.mode === "shadow" ? " A shadow policy denies nothing." : ""}`;
    if (shown.override?.kind === "ban") return `Banned ${untilText(shown.override.until_ms)}: every request is denied. ${by}`;
    if (shown.override?.kind === "exempt") return `Exempt: no request is denied. ${by}`;
    if (!shown.found || shown.limits.length === 0) return `This key has no state: no unit is in use. ${by}`;
    const full = shown.limits.filter((limit) => limit.remaining === 0);
    if (full.length > 0) return `No units are left under ${full.map(({ limit }) => visible(limit)).join(" and ")}: the next request ${shown.mode === "shadow" ? "would be" : "is"} denied. ${by}`;
    const least = shown.limits.reduce((a, b) => (b.remaining < a.remaining ? b : a));
    return `${plural(least.remaining, "unit")} left. ${by}`;
  }

  function drawOverride(override) {
    overrideNote.hidden = override === null;
    if (override === null) return;
    const text = `${overrideText(override)}, ${untilText(override.until_ms)}`;
    if (overrideNote.dataset.text === text + override.note) return;
    overrideNote.dataset.text = text + override.note;
    overrideNote.replaceChildren(h("b", { "aria-hidden": "true" }, "◆ "), `Overridden: ${text}, since `, ago(override.since_ms), ".",
      override.note ? h("q", {}, h("bdi", {}, visible(override.note))) : "");
  }

  function frame() {
    if (!current) return;
    const elapsedMs = performance.now() - receivedAt;
    const nowUs = current.now_us + elapsedMs * 1000;
    for (const card of limits.children) {
      const limit = card.now;
      const used = usedAt(limit, current.algorithm, nowUs, current.now_us);
      const remaining = current.override?.kind === "ban" ? 0 : Math.max(0, limit.capacity - used);
      const next = nextFreeMs(limit, current.algorithm, nowUs, current.now_us);
      const reset = Math.max(0, limit.reset_after_ms - elapsedMs);
      const tone = remaining === 0 ? "bad" : remaining <= limit.capacity * 0.2 ? "warn" : null;
      setFigure(card.figures.used, count(used), used, `of ${count(limit.capacity)}`);
      setFigure(card.figures.remaining, count(remaining), remaining, current.override?.kind === "ban" ? "■ banned" : remaining === 0 ? "■ full" : tone ? "▲ nearly full" : "", tone);
      setFigure(card.figures.next_free, next === null ? "–" : wait(next), next === null ? "" : Math.round(next), next === null ? "nothing is in use" : "without further requests");
      setFigure(card.figures.reset, used === 0 ? "now" : wait(reset), Math.round(used === 0 ? 0 : reset), used === 0 ? "" : `at ${clockTime((nowUs + reset * 1000) / 1000)}`);
      card.meter.firstChild.style.setProperty("inline-size", `${Math.min(100, (used / Math.max(1, limit.capacity)) * 100)}%`);
      set(card.meter, { "data-tone": tone ?? "calm" });
      card.drawing.frame(nowUs);
    }
  }

  // Stale figures must not look live: the drawing stops until the stream is connected again.
  const stopAnimation = animate(() => context.isLive() && !result.classList.contains("old") && frame());

  offerPolicies();
  for (const value of subject ? [subject.key].flat() : [""]) part(value);
  listOverrides();
  const refresh = setInterval(listOverrides, 30_000);
  if (subject) inspect(subject);
  else stream.subscribe();

  return {
    element,
    title: "Key",
    ownStream: true,
    update: offerPolicies,
    overridesChanged: listOverrides,
    onEvent(event, data) {
      if (!subject) return;
      if (event === "key") drawKey(data);
      if (event !== "problem") return;
      problem.hidden = false;
      result.classList.add("old");
      setText(problem, `▲ ${visible(data.error)}`);
    },
    stop() {
      stopAnimation();
      clearInterval(refresh);
    },
  };
}
