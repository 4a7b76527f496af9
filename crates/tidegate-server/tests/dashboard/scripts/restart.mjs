// The service goes away and comes back: the page says so, and goes on by itself.

import { createInterface } from "node:readline";

import { assert, check, open, scene, URL_ } from "./kit.mjs";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const heard = async (line) => assert.equal((await lines.next()).value, line);

await scene(async (browser) => {
  const page = await open(browser, { expected: [/ERR_CONNECTION|ERR_EMPTY|ERR_INCOMPLETE|ERR_SOCKET/] });
  await check("api", "alice");
  await page.waitForFunction(() => window.told.tick?.last.decisions === 1);
  assert.equal(await page.locator("#pulse").getAttribute("data-live"), "live");
  console.log("live");
  await heard("stopped");
  const banner = page.locator("#banner");
  await banner.filter({ hasText: "Not live" }).waitFor();
  assert.equal(await banner.getAttribute("role"), "status");
  assert.ok(await page.evaluate(() => document.body.classList.contains("stale")), "what is shown is marked as stale");
  const started = () => page.locator('#journal [data-kind="started"] time').getAttribute("datetime");
  const before = await started();
  console.log("stale");
  await heard("started");
  await page.locator('#pulse[data-live="live"]').waitFor();
  assert.ok(!(await page.evaluate(() => document.body.classList.contains("stale"))));
  assert.notEqual(await started(), before, "the journal is that of the service as it is now");
  // Another view is live at once, and so is this one again.
  await page.evaluate(() => (location.hash = "#/try"));
  await page.locator("#try-limit").waitFor();
  await page.evaluate(() => (location.hash = "#/"));
  await check("api", "bob");
  await check("api", "carol");
  await page.waitForFunction(() => window.told.tick?.last.decisions === 2);
  assert.equal(await page.locator('main [data-figure="keys"]').getAttribute("data-value"), "2", "of the service as it is now");
  assert.deepEqual(page.complaints(), [], URL_);
});
