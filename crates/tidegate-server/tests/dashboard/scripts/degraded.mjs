// Every view shows a degraded state with its cause, its duration and its cure until the state ends.

import { createInterface } from "node:readline";

import { assert, accessibilityViolations, assertNoComplaints, open, run } from "./browser.mjs";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const expectLine = async (line) => assert.equal((await lines.next()).value, line);

await run(async (browser) => {
  const page = await open(browser);
  await page.locator('#pulse[data-live="live"]').waitFor();
  assert.equal(await page.locator("#degraded [data-cause]").count(), 0);
  console.log("live");
  await expectLine("refused");
  const state = page.locator('#degraded [data-cause="configuration_refused"]');
  await state.waitFor();
  const text = await state.innerText();
  for (const part of ["Degraded: configuration_refused", "for ", "policies.toml:2", "What to do: correct the file"]) assert.ok(text.includes(part), text);
  assert.equal(await page.locator("#degraded").getAttribute("role"), "status");
  assert.deepEqual(await accessibilityViolations(page), []);
  await page.evaluate(() => (location.hash = "#/try"));
  await page.locator("#try-limit").waitFor();
  await state.waitFor();
  await page.evaluate(() => (location.hash = "#/"));
  console.log("seen");
  await expectLine("corrected");
  await state.waitFor({ state: "detached" });
  await page.locator('#journal [data-kind="recovered"]').waitFor();
  assertNoComplaints(page);
});
