// The limits of a key: a card for each, with the window to scale, the units in use and the waiting times.
// #key-limits section data-limit="60/1m" with data-figure="used|remaining|next_free|reset".

import { h, set, setText, rows, figure, foldedTable, setFigure, table } from "./dom.js";
import { timeline } from "./timeline.js";
import { kindOf, nextFreeMs, usedAt } from "./meter.js";
import { clockTime, count, isNearLimit, plural, visible, wait } from "./format.js";

const LISTED = 200;

const HOW = {
  sliding_log: "Each mark is an admitted request, and the band is the window. A request counts until the left edge of the band passes it.",
  sliding_counter: "The two blocks are the current and the previous aligned window. The part of the previous one inside the band still counts.",
  sliding_buckets: "Each block is a bucket. The left edge of the band moves in steps of a bucket, and a bucket counts until the edge passes it.",
  fixed_window: "The block is the current aligned window. At its end, all units are free again.",
  inflight: "This limit has no window. Each open hold counts until it is committed or released, or until its end.",
  gcra: "Each request increases the debt, and time reduces it. The drawing shows how the debt decreases without further requests.",
};

const stamp = (us) => `${clockTime(us / 1000)}.${String(Math.floor(us / 1000) % 1000).padStart(3, "0")}`;

export function limitCards() {
  const element = h("div", { id: "key-limits" });
  let current = null;

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

  return {
    element,
    draw(shown) {
      current = shown;
      // The entries of a limit lack the units of open leases.
      const leased = (shown.reservations ?? []).reduce((sum, { kind, units }) => sum + (kind === "lease" ? units : 0), 0);
      rows(element, shown.limits, (limit, i) => `${i} ${limit.limit} ${shown.algorithm}`, limitCard, (card, limit) => {
        card.algorithm = limit.window_us === 0 ? "inflight" : shown.algorithm;
        limit.leased = limit.window_us === 0 ? 0 : leased;
        if (!card.drawing && limit.window_us > 0) {
          card.drawing = timeline(limit, shown.algorithm);
          card.querySelector(".slot").append(card.drawing.element);
        }
        card.now = limit;
        card.drawing?.update(limit, shown.now_us);
        setText(card.querySelector("p"), `${HOW[kindOf(card.algorithm)] ?? ""}${limit.unlisted ? ` ${plural(limit.unlisted, "older entry", "older entries")} not drawn.` : ""}`);
        card.folded.hidden = limit.entries.length === 0;
        drawEntries(card);
      });
    },
    /** Updates the figures `elapsedMs` after the state was received. */
    frame(elapsedMs) {
      if (!current) return;
      const nowUs = current.now_us + elapsedMs * 1000;
      const isBanned = current.override?.kind === "ban";
      const isShadow = current.mode === "shadow";
      for (const card of element.children) {
        const limit = card.now;
        const used = usedAt(limit, card.algorithm, nowUs, current.now_us);
        const remaining = isBanned ? 0 : Math.max(0, limit.capacity - used);
        const next = nextFreeMs(limit, card.algorithm, nowUs, current.now_us);
        const reset = Math.max(0, limit.reset_after_ms - elapsedMs);
        const isNear = isNearLimit(used, limit.capacity);
        // A shadow policy denies nothing, so nothing is marked as bad.
        const tone = isShadow ? null : remaining === 0 ? "bad" : isNear ? "warn" : null;
        const state = isBanned ? "■ ban" : remaining === 0 ? (isShadow ? "would be denied" : "■ full") : isNear ? "▲ nearly full" : "";
        setFigure(card.figures.used, count(used), used, `of ${count(limit.capacity)}`);
        setFigure(card.figures.remaining, count(remaining), remaining, state, tone);
        setFigure(card.figures.next_free, next === null ? "–" : wait(next), next === null ? "" : Math.round(next), next === null ? "nothing is in use" : "without further requests");
        setFigure(card.figures.reset, used === 0 ? "now" : wait(reset), Math.round(used === 0 ? 0 : reset), used === 0 ? "" : `at ${clockTime((nowUs + reset * 1000) / 1000)}`);
        card.meter.firstChild.style.setProperty("inline-size", `${Math.min(100, (used / Math.max(1, limit.capacity)) * 100)}%`);
        set(card.meter, { "data-tone": isShadow && remaining === 0 ? "shadow" : tone ?? "calm" });
        card.drawing?.frame(nowUs);
      }
    },
  };
}
