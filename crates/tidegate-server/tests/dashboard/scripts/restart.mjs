// The service stops and starts again: the page shows it and reconnects.

import { createInterface } from "node:readline";

import { assert, check, open, picture, run, URL_ } from "./browser.mjs";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const expectLine = async (line) => assert.equal((await lines.next()).value, line);

await run(async (browser) => {
  const page = await open(browser, { expected: [/ERR_CONNECTION|ERR_EMPTY|ERR_INCOMPLETE|ERR_SOCKET/] });
  await check("api", "alice");
  await page.waitForFunction(() => window.received.tick?.last.decisions === 1);
  assert.equal(await page.locator("#pulse").getAttribute("data-live"), "live");
  const heading = page.locator("h2", { hasText: /^Most denied/ });
  assert.equal(await heading.innerText(), "Most denied now");
  console.log("live");
  await expectLine("stopped");
  const banner = page.locator("#banner");
  await banner.filter({ hasText: "Not live" }).waitFor();
  await page.locator("#summary").filter({ hasText: /^The service does not answer\. These figures are from / }).waitFor();
  assert.equal(await banner.getAttribute("role"), "status");
  assert.ok(await page.evaluate(() => document.body.classList.contains("stale")), "the shown figures are marked as stale");
  assert.match(await heading.innerText(), /^Most denied until \d\d:\d\d:\d\d$/);
  const assertNothingIsNow = async () => assert.doesNotMatch(await page.locator("main").innerText(), /\bnow\b|in the last minute/i);
  await assertNothingIsNow();
  await picture(page, "overview-down");
  await page.evaluate(() => (location.hash = "#/policy/api"));
  await page.locator("#policy-description", { hasText: "At most 5 units" }).waitFor();
  assert.doesNotMatch(await page.locator("main").innerText(), /No key|no such key/, "nothing is known about keys");
  await assertNothingIsNow();
  await page.evaluate(() => (location.hash = "#/"));
  await page.locator("#summary").filter({ hasText: /^The service does not answer\./ }).waitFor();
  assert.match(await heading.innerText(), /^Most denied until /, "also in a view that is opened later");
  const started = () => page.locator('#journal [data-kind="started"] time').getAttribute("datetime");
  const before = await started();
  console.log("stale");
  await expectLine("started");
  await page.locator('#pulse[data-live="live"]').waitFor();
  assert.ok(!(await page.evaluate(() => document.body.classList.contains("stale"))));
  await page.locator("#summary").filter({ hasText: "No traffic. Store: healthy." }).waitFor();
  assert.equal(await heading.innerText(), "Most denied now");
  assert.notEqual(await started(), before, "the journal is that of the restarted service");
  // Another view is live immediately, and so is this view afterwards.
  await page.evaluate(() => (location.hash = "#/try"));
  await page.locator("#try-limit").waitFor();
  await page.evaluate(() => (location.hash = "#/"));
  await check("api", "bob");
  await check("api", "carol");
  await page.waitForFunction(() => window.received.tick?.last.decisions === 2);
  assert.equal(await page.locator('main [data-figure="keys"]').getAttribute("data-value"), "2", "the keys of the restarted service");
  assert.deepEqual(page.complaints(), [], URL_);
});
