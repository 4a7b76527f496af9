// If viewing requires a token, the page shows a login form only.

import { assert, check, assertNoComplaints, devices, open, openOn, run, verifyView } from "./browser.mjs";

await run(async (browser) => {
  const page = await open(browser, { expected: [/status of 401/] });
  await page.locator("#token").waitFor();
  assert.ok(!(await page.locator("body").innerText()).includes("api"), "nothing is shown");
  assert.equal(await page.evaluate(() => JSON.stringify(window.received)), "{}");
  for (const device of Object.keys(devices)) {
    const form = await openOn(browser, device, { expected: [/status of 401/] });
    await form.locator("#token").waitFor();
    await verifyView(form, "login", device);
    await form.locator("#token").fill("guessed-it");
    await form.keyboard.press("Enter");
    await form.locator("#login-problem", { hasText: "wrong" }).waitFor();
    await verifyView(form, "login-refused", device);
    assertNoComplaints(form);
    await form.close();
  }
  await page.locator("#token").fill("use-me-now");
  await page.keyboard.press("Enter");
  await page.locator('tr[data-policy="api"]').waitFor();
  assert.equal((await check("api", "alice")).status, 401, "other clients still need a token");
  assert.equal(await page.locator("#log-in").count(), 1, "a login with the admin token is still possible");
  assertNoComplaints(page);
});
