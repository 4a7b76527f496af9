// The view of one key: its admissions and denials, its limits, its policies, and the actions. The address names the policy and
// the key; if the policy hides its keys, it names the hash of the key.
// #key-form, #key-policy, .part inputs; #key-h, #key-summary, #key-override; buttons data-action="reset|override|lift".

import * as api from "./api.js";
import { confirmRemoveOverride, confirmOverride, confirmReset } from "./actions.js";
import { h, setText, ago, animate, button, field, offer } from "./dom.js";
import { OVERRIDES, overrideText, plural, untilText, visible } from "./format.js";
import { knownPanel } from "./known.js";
import { limitCards } from "./limits.js";
import { overridesPanel } from "./overrides.js";
import { requestsPanel } from "./requests.js";
import { reservationsPanel } from "./reservations.js";

const MAX_PARTS = 8;

function readOnlyView(session) {
  return { title: "Key", element: h("div", { class: "view" }, h("h1", { tabindex: -1 }, "Key"),
    h("p", { class: "note" }, session.login === "out" ? "Log in to inspect, reset and override keys." : "This token shows the figures only. Log in with the admin token to inspect, reset and override keys.")) };
}

export function keyView(context, address) {
  const { dashboard, session, stream } = context;
  if (!session.may_change) return readOnlyView(session);
  let subject = address && (address.key !== undefined || address.hash) ? address : null;
  let action = address?.action ?? null;
  let current = null;
  let receivedAt = 0;
  let shownAddress = location.hash;

  const policy = h("select", { id: "key-policy", required: true });
  const parts = h("div", { class: "parts" });
  const addPart = button("Add a part", () => part("").focus(), { id: "add-part" });
  const form = h("form", {
    id: "key-form", class: "search panel",
    submit(event) {
      event.preventDefault();
      const values = [...parts.querySelectorAll("input")].map((input) => input.value);
      inspect({ policy: policy.value, key: values.length === 1 ? values[0] : values });
    },
  }, field("Policy", policy), parts, h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Inspect"), addPart));

  const problem = h("p", { class: "note", id: "key-problem", role: "alert", hidden: true });
  const hint = h("p", { class: "soft", id: "key-hint" }, "Select a policy and enter a key, or select a key from “Most denied now” on the ", h("a", { href: "#/" }, "overview"), ".");
  const outcome = h("p", { class: "note good", id: "key-done", role: "status" });
  const heading = h("h2", { id: "key-h" });
  const sentence = h("p", { class: "summary", id: "key-summary" });
  const overrideNote = h("p", { class: "note calm", id: "key-override", hidden: true });
  const remove = button("", () => act(confirmRemoveOverride), { "data-action": "lift" });
  const actions = h("div", { class: "actions" },
    button("Override…", () => act(confirmOverride), { "data-action": "override", title: "Set other limits, a ban or an exemption" }), remove,
    button("Reset…", () => act(confirmReset), { "data-action": "reset" }));
  const overrides = overridesPanel(change);
  let panels = {};
  const contents = h("div", { class: "contents" });
  const result = h("section", { "aria-labelledby": "key-h", hidden: true }, heading, sentence, overrideNote, actions, contents);
  const element = h("div", { class: "view" }, h("h1", { tabindex: -1 }, "Key"), form, hint, problem, outcome, result, overrides.element);

  function part(value) {
    const n = parts.children.length;
    const input = h("input", { type: "text", class: "part", autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
    input.value = value;
    const row = field(n === 0 ? "Key" : `Part ${n + 1}`, input);
    const removePart = () => {
      row.remove();
      addPart.hidden = false;
      addPart.focus();
    };
    if (n > 0) row.append(button("✕", removePart, { class: "quiet", "aria-label": `Remove part ${n + 1}` }));
    parts.append(row);
    addPart.hidden = parts.children.length >= MAX_PARTS;
    return input;
  }

  const offerPolicies = () => offer(policy, [...dashboard.catalogue.keys()], (subject ?? address)?.policy);

  function inspect(target) {
    subject = target;
    current = null;
    panels = { requests: requestsPanel(), limits: limitCards(), reservations: reservationsPanel(), known: knownPanel() };
    contents.replaceChildren(panels.requests.element, panels.limits.element, panels.reservations.element, panels.known.element);
    result.hidden = true;
    problem.hidden = true;
    hint.hidden = true;
    setText(outcome, "");
    stream.subscribe(target);
  }

  /** Puts the key into the address, so that a reload shows it again. A hidden key is never part of the address. */
  function showAddress({ label }) {
    const hides = dashboard.catalogue.get(subject.policy)?.hide_keys ?? true;
    const known = hides ? api.subjectOf(subject.policy, { key: null, label }) ?? { policy: subject.policy } : subject;
    const wanted = api.keyAddress(known);
    // Another address is a navigation that has not taken effect yet.
    if (location.hash === shownAddress && shownAddress !== wanted) {
      history.replaceState(null, "", wanted);
      shownAddress = location.hash;
    }
    document.querySelector('nav a[data-view="key"]').setAttribute("href", wanted);
  }

  const act = (confirm) => change(confirm, { ...subject, label: current.label, now: current });

  async function change(confirm, changed) {
    const done = await confirm(changed);
    if (!done) return;
    setText(outcome, done);
    overrides.refresh();
  }

  function drawKey(shown) {
    const isFirst = current === null;
    current = shown;
    receivedAt = performance.now();
    result.hidden = false;
    result.classList.remove("old");
    problem.hidden = true;
    if (isFirst) {
      const label = shown.label || [subject.key ?? subject.hash].flat().join(" · ");
      heading.replaceChildren(h("bdi", { class: "key whole" }, visible(label)), h("span", { class: "soft under" }, ` under ${visible(shown.policy)}`));
    }
    if (dashboard.catalogue.size > 0) showAddress(shown);
    setText(sentence, summaryText(shown).trim());
    drawOverride(shown.override);
    panels.limits.draw(shown);
    const leases = dashboard.overview?.store.leases?.keys ?? [];
    panels.reservations.draw(shown, leases.find(({ policy, label }) => policy === shown.policy && label === shown.label));
    panels.requests.state(shown);
    frame();
    if (action === "override") {
      action = null;
      act(confirmOverride);
    }
  }

  function summaryText(shown) {
    const isShadow = shown.mode === "shadow";
    // Limits on open holds need no algorithm.
    const algorithm = shown.limits.some(({ window_us: window }) => window > 0) ? `The algorithm is ${visible(shown.algorithm)}.` : "";
    const by = `${algorithm}${isShadow ? " A shadow policy denies nothing." : ""}`.trim();
    if (shown.override?.kind === "ban") return `Ban ${untilText(shown.override.until_ms)}: every request ${isShadow ? "would be" : "is"} denied. ${by}`;
    if (shown.override?.kind === "exempt") return `Exemption ${untilText(shown.override.until_ms)}: no request is denied. ${by}`;
    if (!shown.found || shown.limits.length === 0) return `No traffic: no unit of this key is in use. ${by}`;
    const full = shown.limits.filter((limit) => limit.remaining === 0);
    if (full.length > 0) return `No units are left under ${full.map(({ limit }) => visible(limit)).join(" and ")}: the next request ${isShadow ? "would be" : "is"} denied. ${by}`;
    const least = shown.limits.reduce((a, b) => (b.remaining < a.remaining ? b : a));
    return `${plural(least.remaining, "unit")} left. ${by}`;
  }

  function drawOverride(override) {
    overrideNote.hidden = override === null;
    remove.hidden = override === null;
    if (override === null) return;
    setText(remove, `Remove the ${OVERRIDES[override.kind]}…`);
    const text = `${overrideText(override)}, ${untilText(override.until_ms)}`;
    if (overrideNote.dataset.text === text + override.note) return;
    overrideNote.dataset.text = text + override.note;
    overrideNote.replaceChildren(h("b", { "aria-hidden": "true" }, "◆ "), `This key has an override. ${text[0].toUpperCase()}${text.slice(1)}, since `, ago(override.since_ms), ".",
      override.note ? h("q", {}, h("bdi", {}, visible(override.note))) : "");
  }

  function frame() {
    if (!current) return;
    panels.limits.frame(performance.now() - receivedAt);
    panels.reservations.frame(performance.now() - receivedAt);
  }

  function showProblem(text) {
    problem.hidden = false;
    result.classList.add("old");
    setText(problem, `▲ ${text}`);
  }

  // Stale figures must not look live: the drawing stops until the stream is connected again.
  const stopAnimation = animate(() => context.isLive() && !result.classList.contains("old") && frame());

  offerPolicies();
  for (const value of subject?.key ? [subject.key].flat() : [""]) part(value);
  if (subject) inspect(subject);
  else stream.subscribe();

  return {
    element,
    title: "Key",
    ownStream: true,
    update: offerPolicies,
    overridesChanged: overrides.refresh,
    onEvent(event, data) {
      if (!subject) return;
      if (event === "key") drawKey(data);
      else if (event === "denials" && current) panels.requests.draw(data, current.now_us / 1000);
      else if (event === "policies") panels.known.draw(data, subject.policy);
      else if (event === "problem") showProblem(visible(data.error));
    },
    refused({ status, field, error }) {
      if (status === 404) return showProblem(`No such policy: ${visible(subject.policy)}. Select one of the policies above.`);
      if (field === "hash") return showProblem("The service does not remember this key: hashes change when the service restarts. Enter the key, or select it from the overview.");
      showProblem(visible(error ?? `The service answered ${status}.`));
    },
    stop() {
      stopAnimation();
      overrides.stop();
    },
  };
}
