// Asking the service. A refusal becomes an Error with `status` and, where it is about one, `field`.

async function ask(method, path, body) {
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "same-origin",
    });
  } catch {
    throw Object.assign(new Error("The service cannot be reached."), { status: 0 });
  }
  const answer = await response.json().catch(() => ({}));
  return { status: response.status, ok: response.ok, answer, retryAfter: response.headers.get("retry-after") };
}

async function asked(method, path, body) {
  const { status, ok, answer, retryAfter } = await ask(method, path, body);
  if (ok) return answer;
  const text = answer.error ?? `The service answered ${status}.`;
  throw Object.assign(new Error(text), { status, field: answer.field, retryAfter });
}

/** The part of an address that names a policy and a key, which may have several parts. */
export function subject(policy, key) {
  const query = new URLSearchParams();
  if (policy) query.append("policy", policy);
  for (const part of key === undefined || key === null ? [] : [key].flat()) query.append("key", part);
  // A list of one is another key than its only part.
  if (Array.isArray(key)) query.append("list", "true");
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
}

export const session = () => asked("GET", "/v1/session");
export const logIn = (token) => asked("POST", "/v1/session", { token });
export const logOut = () => asked("DELETE", "/v1/session");
export const policies = () => asked("GET", "/v1/policies");
export const overrides = () => asked("GET", "/v1/overrides");
export const reset = (policy, key) => asked("POST", "/v1/reset", { policy, key });
export const override = (request) => asked("POST", "/v1/override", request);
export const removeOverride = (policy, key) => asked("POST", "/v1/override/lift", { policy, key });

/** A decision. A denial is an answer as good as any, and no failed request that the browser would complain about. */
export async function check(request) {
  const { status, answer } = await ask("POST", "/v1/check?deny_status=200", request);
  if (typeof answer.allowed === "boolean") return answer;
  throw Object.assign(new Error(answer.error ?? `The service answered ${status}.`), { status, field: answer.field });
}

/** Why the stream cannot be had: 0 for no answer at all, otherwise the status and what was said. */
export async function whyNoStream(path) {
  const giveUp = new AbortController();
  const timer = setTimeout(() => giveUp.abort(), 3000);
  try {
    const response = await fetch(path, { cache: "no-store", signal: giveUp.signal });
    const said = response.ok ? {} : await response.json().catch(() => ({}));
    return { status: response.status, error: said.error };
  } catch {
    return { status: 0 };
  } finally {
    clearTimeout(timer);
    giveUp.abort();
  }
}
