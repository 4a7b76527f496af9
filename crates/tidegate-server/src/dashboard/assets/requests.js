// The admissions and the denials of a key over time. #key-requests with data-figure="admitted|denied".

import { admissions } from "./admissions.js";
import { chart } from "./chart.js";
import { total } from "./dashboard.js";
import { h, set, figure, setFigure, setText } from "./dom.js";
import { causeText, clockTime, count, span, visible } from "./format.js";

const SERIES = [
  { id: "allowed", name: "admitted units", meaning: "units of admitted requests" },
  { id: "shadow", name: "would be denied", meaning: "requests beyond the limit of a shadow policy, which denies nothing" },
  { id: "limited", name: "denied requests", meaning: "requests that were denied" },
];

export function requestsPanel() {
  const counted = admissions();
  let mode = "enforce";
  const figures = { admitted: figure("admitted", "admitted units"), denied: figure("denied", "denied requests") };
  const picture = chart({ name: "requests", title: "Admitted and denied", unit: "in 15 seconds", kind: "stack", series: SERIES, format: count, height: 150, whole: true, average: 1, rowText: "each row is 15 seconds" });
  const note = h("p", { class: "soft small" });
  const element = h("section", { class: "panel spaced", id: "key-requests", "aria-label": "Admitted and denied requests of this key", hidden: true },
    h("dl", { class: "tiles few" }, Object.values(figures)), picture.element, note);

  return {
    element,
    /** Takes the state of the key. */
    state(shown) {
      mode = shown.mode;
      counted.update(shown);
    },
    /** Draws the denials that the service has counted, and the admissions beside them. */
    draw({ policy, from_ms, step_ms, counts, denials, error, since_ms, ...cause }, nowMs) {
      if (counted.since() === null) return;
      element.hidden = false;
      const isShadow = mode === "shadow";
      const allowed = counted.inSteps(from_ms, step_ms, counts.length);
      const denied = total(counts);
      const admittedFrom = Math.max(from_ms, counted.since());
      setFigure(figures.admitted, count(total(allowed)), total(allowed), `in the last ${span(nowMs - admittedFrom)}`);
      setFigure(figures.denied, count(denials), denials, `in the last ${span(nowMs - since_ms)}${error > 0 ? `; at most ${count(error)} too high` : ""}`, denials > 0 && !isShadow ? "bad" : null);
      setText(figures.denied.firstChild, isShadow ? "would be denied" : "denied requests");
      set(figures.denied.value, { "data-cause": cause.reason });
      setText(note, [
        denials > 0 && cause.reason ? `Last denied by: ${causeText(cause)}.` : "This key was not denied in this time.",
        counted.since() > from_ms + step_ms ? `The service does not store admissions by key: they are known since ${clockTime(counted.since())}, from the window and while this page is open.` : "",
      ].join(" "));
      picture.draw({ from_ms, step_ms, values: { allowed, [isShadow ? "shadow" : "limited"]: counts },
        summary: `Under ${visible(policy)}, in the last 5 minutes: ${count(total(allowed))} units admitted and ${count(denied)} requests ${isShadow ? "that would be denied" : "denied"}.` });
    },
  };
}
