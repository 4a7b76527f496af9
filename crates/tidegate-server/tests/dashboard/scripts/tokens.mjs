// Without the admin token the page is read-only and shows keys to local viewers only. A login form takes the token, which is not stored.

import { assert, check, assertNoComplaints, devices, inspectKey, open, openOn, run, verifyView, URL_ } from "./browser.mjs";

const TOKEN = "change-me-now";
const expected = [/status of 401/];

await run(async (browser) => {
  for (let i = 0; i < 7; i++) await check("api", "alice");

  // A local viewer sees keys and cannot change anything.
  const page = await open(browser, { path: "/#/policy/api", expected });
  await page.locator("#hardest tr").first().waitFor();
  assert.match(await page.locator("#hardest").innerText(), /alice/);
  assert.equal(await page.locator("#hardest a").count(), 0, "a key cannot be inspected");
  await page.goto(`${URL_}/#/key`);
  assert.equal(await page.locator("[data-action], #key-form").count(), 0);
  assert.match(await page.locator("main").innerText(), /Log in to inspect/);

  for (const device of Object.keys(devices)) {
    const readOnly = await openOn(browser, device, { path: "/#/key" });
    await readOnly.getByText("Log in to inspect").waitFor();
    await verifyView(readOnly, "key-read-only", device);
    await readOnly.locator("#log-in").click();
    await readOnly.locator("#token").waitFor();
    await verifyView(readOnly, "dialog-login", device);
    assertNoComplaints(readOnly);
    await readOnly.close();
  }

  // A remote viewer does not see keys.
  const far = await open(browser, { path: "/#/policy/api", extraHTTPHeaders: { "x-forwarded-for": "203.0.113.7" } });
  await far.locator("#hardest tr").first().waitFor();
  assert.ok(!(await far.locator("main").innerText()).includes("alice"));
  assert.match(await far.locator("main").innerText(), /hidden/);
  assertNoComplaints(far);

  // The login form.
  await page.locator("#log-in").click();
  await page.locator("#token").fill("guessed-it");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#login-problem").textContent !== "");
  assert.equal(await page.locator("#token").getAttribute("type"), "password");
  await page.locator("#token").fill(TOKEN);
  await page.keyboard.press("Enter");
  await page.locator("#log-out").waitFor();
  await inspectKey(page, "api", "alice");
  await page.locator('[data-action="reset"]').click();
  await page.locator("#confirm-go").click();
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.equal((await check("api", "alice")).status, 200);

  // The token is not stored anywhere.
  const stored = await page.evaluate(() => [location.href, document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.documentElement.outerHTML].join("\n"));
  assert.ok(!stored.includes(TOKEN));
  const cookies = await page.context().cookies();
  assert.equal(cookies.length, 1);
  assert.ok(cookies[0].httpOnly && cookies[0].sameSite === "Strict" && !cookies[0].value.includes(TOKEN), JSON.stringify(cookies));

  // The login survives a reload of the page and ends with a logout.
  await page.reload();
  await page.locator("#log-out").click();
  await page.locator("#log-in").waitFor();
  await page.goto(`${URL_}/#/key`);
  assert.equal(await page.locator("[data-action], #key-form").count(), 0);
  assertNoComplaints(page);
});
