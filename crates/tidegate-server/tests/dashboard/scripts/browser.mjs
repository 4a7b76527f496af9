// Shared by all scripts: starts a browser, opens the page, collects its complaints, and sends requests without the page.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.env.TIDEGATE_NODE, "node_modules", "x"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const opened = [];

/** The windows in which views are checked. */
export const devices = {
  light: { colorScheme: "light", viewport: { width: 1280, height: 900 } },
  dark: { colorScheme: "dark", viewport: { width: 1280, height: 900 } },
  phone: { colorScheme: "light", viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true },
  "phone-dark": { colorScheme: "dark", viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true },
  narrow: { colorScheme: "light", viewport: { width: 360, height: 780 }, isMobile: true, hasTouch: true },
};

export const URL_ = process.env.TIDEGATE_URL;
export { assert };

/** Runs a script in a browser. The process fails if the script throws. */
export async function run(script) {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  try {
    await script(browser);
  } catch (error) {
    console.error("complaints of the pages:", opened.map((page) => page.complaints()));
    throw error;
  } finally {
    await browser.close();
  }
}

/**
 * Opens the page. `expected` are patterns of complaints that the script causes: a browser reports every refused request.
 * `window.received` has the last data of each event of the stream, and `window.source` is the stream.
 */
export async function open(browser, { path = "/", expected = [], ...settings } = {}) {
  const context = await browser.newContext(settings);
  const page = await context.newPage();
  const complaints = [];
  page.complaints = () => complaints;
  opened.push(page);
  const complain = (text) => {
    if (!expected.some((pattern) => pattern.test(text))) complaints.push(text);
  };
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && complain(message.text()));
  page.on("pageerror", (error) => complain(`${error}`));
  page.on("dialog", (dialog) => {
    complain(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(URL_)) complain(`request to another host: ${request.url()}`);
  });
  await page.addInitScript(() => {
    window.received = {};
    addEventListener("securitypolicyviolation", (event) => console.error(`policy violated: ${event.violatedDirective}`));
    window.EventSource = class extends EventSource {
      constructor(...all) {
        super(...all);
        window.source = this;
        for (const name of ["overview", "tick", "hits", "key", "denials", "policies"]) {
          this.addEventListener(name, (event) => (window.received[name] = JSON.parse(event.data)));
        }
      }
    };
  });
  await page.goto(`${URL_}${path}`);
  return page;
}

/** Asserts that the pages have no complaints. */
export function assertNoComplaints(...pages) {
  for (const page of pages) assert.deepEqual(page.complaints(), []);
}

export async function request(method, path, body, headers = {}) {
  const response = await fetch(`${URL_}${path}`, {
    method,
    headers: { ...(body ? { "content-type": "application/json" } : {}), ...headers },
    body: body ? JSON.stringify(body) : undefined,
  });
  return { status: response.status, body: await response.json() };
}

export const check = (policy, key, more = {}) => request("POST", "/v1/check", { policy, key, ...more });

/** Sends traffic until `end` is called. */
export function traffic() {
  let over = false;
  const run = (async () => {
    for (let i = 0; !over; i++) {
      await Promise.all([
        check("api", `user-${i % 7}`), check("api-next", `user-${i % 7}`), check("login", "mallory"), check("buckets", "eve"),
        check("steady", "eve"), check("fixed", "eve"), check("secret", "s3cr3t"), check("api", "unknown", { cost: 6 }),
      ]);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  return { async end() {
    over = true;
    await run;
  } };
}

/** Returns a figure of the page by its name. */
export const figure = (page, name, within = "main") => page.locator(`${within} [data-figure="${name}"]`).first();

export async function value(page, name, within) {
  return Number(await figure(page, name, within).getAttribute("data-value"));
}

/** Returns the accessibility rules that the page violates. */
export async function accessibilityViolations(page) {
  // Evaluated like a browser's own tools: the security policy of the page does not apply.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
}

/** Returns by how many pixels the page is wider than its window. On a phone, `innerWidth` would grow with the page. */
export const overflow = (page) => page.evaluate((width) => document.documentElement.scrollWidth - width, page.viewportSize().width);

export async function picture(page, name) {
  mkdirSync(process.env.TIDEGATE_PICTURES, { recursive: true });
  await page.screenshot({ path: join(process.env.TIDEGATE_PICTURES, `${name}.png`), fullPage: true });
}

/** Opens the page on a device, for `verifyView`. */
export const openOn = (browser, device, more = {}) => open(browser, { ...devices[device], bypassCSP: true, reducedMotion: "reduce", ...more });

/** Asserts that a view violates no accessibility rule and fits the window, and takes a picture of it. */
export async function verifyView(page, name, device) {
  // A narrow window has the same elements and colours as the phone.
  if (device !== "narrow") assert.deepEqual(await accessibilityViolations(page), [], `${name}, ${device}`);
  assert.ok((await overflow(page)) <= 0, `${name}, ${device}: wider than the window by ${await overflow(page)}`);
  await picture(page, `${name}-${device}`);
}

/** Inspects a key on the page. */
export async function inspectKey(page, policy, ...parts) {
  await page.goto(`${URL_}/#/key`);
  await page.locator("#key-policy").selectOption(policy);
  for (let i = 1; i < parts.length; i++) await page.locator("#add-part").click();
  for (const [i, part] of parts.entries()) await page.locator("input.part").nth(i).fill(part);
  await page.getByRole("button", { name: "Inspect", exact: true }).click();
  await page.locator("#key-limits [data-limit]").first().waitFor();
}
