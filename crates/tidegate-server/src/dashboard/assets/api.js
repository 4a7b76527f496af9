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
    throw failure("The service does not answer.", { status: 0 });
  });
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  const { status } = response;
  throw failure(body.error ?? `The service answered ${status}.`, { status, field: body.field, retryAfter: response.headers.get("retry-after") });
}

/** Returns the query that names a policy and a key: the key, which may have several parts, or its hash. */
export function subjectQuery({ policy, key, hash }, more = {}) {
  const query = new URLSearchParams();
  if (policy) query.append("policy", policy);
  for (const part of [key ?? []].flat()) query.append("key", part);
  // A list with one part and that part alone are different keys.
  if (Array.isArray(key)) query.append("list", "true");
  if (hash) query.append("hash", hash);
  for (const [name, value] of Object.entries(more)) query.append(name, value);
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
}

/** Reads the query of `subjectQuery`. Returns null if it names no policy. */
export function parseSubject(text) {
  const query = new URLSearchParams(text);
  const policy = query.get("policy");
  if (!policy) return null;
  const parts = query.getAll("key");
  const key = parts.length === 1 && query.get("list") !== "true" ? parts[0] : parts.length > 0 ? parts : undefined;
  return { policy, key, hash: query.get("hash") ?? undefined, action: query.get("do") };
}

/** Returns the key as requests name it: the key, or its hash. Null if the service shows neither. */
export function subjectOf(policy, { key, label }) {
  if (key !== null && key !== undefined) return { policy, key };
  return /^#[0-9a-f]{16}$/.test(label) ? { policy, hash: label } : null;
}

/** Returns the address of a key's page. `action` opens a dialog on it. */
export const keyAddress = (subject, action) => `#/key${subjectQuery(subject, action ? { do: action } : {})}`;

const named = ({ policy, key, hash }) => (hash ? { policy, hash } : { policy, key });

export const session = () => request("GET", "/v1/session");
export const logIn = (token) => request("POST", "/v1/session", { token });
export const logOut = () => request("DELETE", "/v1/session");
export const policies = () => request("GET", "/v1/policies");
export const overrides = () => request("GET", "/v1/overrides");
export const reset = (subject) => request("POST", "/v1/reset", named(subject));
export const setOverride = (subject, override) => request("POST", "/v1/override", { ...named(subject), ...override });
export const removeOverride = (subject) => request("POST", "/v1/override/lift", named(subject));

/** Returns a decision under a limit that is tried. No figure of the service counts it. */
export const tryLimit = (requestBody) => request("POST", "/v1/try", requestBody);

/** Returns why the stream failed: status 0 without a response, otherwise the status and the error. */
export async function streamError(path) {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), 3000);
  try {
    const response = await fetch(path, { cache: "no-store", signal: abort.signal });
    const { error, field } = response.ok ? {} : await response.json().catch(() => ({}));
    return { status: response.status, error, field };
  } catch {
    return { status: 0 };
  } finally {
    clearTimeout(timer);
    abort.abort();
  }
}
