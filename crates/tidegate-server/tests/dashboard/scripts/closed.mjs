// If viewing requires a token, the page shows a login form only.

import { assert, check, assertNoComplaints, open, run } from "./browser.mjs";

await run(async (browser) => {
  const page = await open(browser, { expected: [/status of 401/] });
  await page.locator("#token").waitFor();
  assert.ok(!(await page.locator("body").innerText()).includes("api"), "nothing is shown");
  assert.equal(await page.evaluate(() => JSON.stringify(window.received)), "{}");
  await page.locator("#token").fill("use-me-now");
  await page.keyboard.press("Enter");
  await page.locator('tr[data-policy="api"]').waitFor();
  assert.equal((await check("api", "alice")).status, 401, "other clients still need a token");
  assert.equal(await page.locator("#log-in").count(), 1, "a login with the admin token is still possible");
  assertNoComplaints(page);
});
