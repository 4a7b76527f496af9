// Requests to the service. A refusal becomes an Error with `status` and, if one field is wrong, `field`.

const failure = (message, more) => Object.assign(new Error(message), more);

async function request(method, path, requestBody) {
  const response = await fetch(path, {
    method,
    headers: requestBody === undefined ? {} : { "content-type": "application/json" },
    body: requestBody === undefined ? undefined : JSON.stringify(requestBody),
    cache: "no-store",
    credentials: "same-origin",
  }).catch(() => {
    throw failure("The service cannot be reached.", { status: 0 });
  });
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  const { status } = response;
  throw failure(body.error ?? `The service answered ${status}.`, { status, field: body.field, retryAfter: response.headers.get("retry-after") });
}

/** Returns the query that names a policy and a key. The key may have several parts. */
export function subjectQuery(policy, key) {
  const query = new URLSearchParams();
  if (policy) query.append("policy", policy);
  for (const part of [key ?? []].flat()) query.append("key", part);
  // A list with one part and that part alone are different keys.
  if (Array.isArray(key)) query.append("list", "true");
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
}

export const session = () => request("GET", "/v1/session");
export const logIn = (token) => request("POST", "/v1/session", { token });
export const logOut = () => request("DELETE", "/v1/session");
export const policies = () => request("GET", "/v1/policies");
export const overrides = () => request("GET", "/v1/overrides");
export const reset = (policy, key) => request("POST", "/v1/reset", { policy, key });
export const setOverride = (requestBody) => request("POST", "/v1/override", requestBody);
export const removeOverride = (policy, key) => request("POST", "/v1/override/lift", { policy, key });

/** Returns a decision. A denial has status 200, too, because a browser logs every failed request. */
export const check = (requestBody) => request("POST", "/v1/check?deny_status=200", requestBody);

/** Returns why the stream failed: status 0 without a response, otherwise the status and the error. */
export async function streamError(path) {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), 3000);
  try {
    const response = await fetch(path, { cache: "no-store", signal: abort.signal });
    const { error } = response.ok ? {} : await response.json().catch(() => ({}));
    return { status: response.status, error };
  } catch {
    return { status: 0 };
  } finally {
    clearTimeout(timer);
    abort.abort();
  }
}
