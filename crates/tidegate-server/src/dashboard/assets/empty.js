// What to do next while the service has no policies or no traffic. #first-steps.

import { h, panel } from "./dom.js";
import { visible } from "./format.js";

const CONFIGURATION = '[policies.api]\nlimits = ["100/1m"]';

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function command(session, body) {
  const token = session.login === "not_needed" ? "" : ' \\\n  -H "authorization: Bearer $TOKEN"';
  return `curl ${location.origin}/v1/check \\\n  -H 'content-type: application/json'${token} \\\n  -d ${quoted(JSON.stringify(body))}`;
}

const code = (label, text) => h("pre", { tabindex: 0, role: "group", "aria-label": label }, h("code", {}, visible(text).replaceAll("\\u{a}", "\n")));

/** Returns the panel for a service without traffic. `policy` is the name of a policy, or undefined if there is none. */
export function firstSteps(session, policy) {
  const steps = policy !== undefined
    ? [h("p", {}, "No request has reached this service in the last 5 minutes. Send one:"), code("command", command(session, { policy, key: "alice" }))]
    : [h("p", {}, "The configuration has no policies. Add one to the configuration file; the service reloads the file when it changes:"), code("configuration", CONFIGURATION),
      session.caller_limits && [h("p", {}, "Or send the limits with the request:"), code("command", command(session, { limits: ["10/1m"], key: "alice" }))]];
  return Object.assign(panel("First steps", ...steps.flat().filter(Boolean)), { id: "first-steps" });
}
