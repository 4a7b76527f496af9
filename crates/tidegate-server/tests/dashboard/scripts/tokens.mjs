// Read-only without the admin token; keys at this machine only; a login is a form, and the token is nowhere afterwards.

import { assert, check, content, lookInto, open, scene, URL_ } from "./kit.mjs";

const TOKEN = "change-me-now";
const expected = [/status of 401/];

await scene(async (browser) => {
  for (let i = 0; i < 7; i++) await check("api", "alice");

  // At this machine keys are shown, and nothing can be changed.
  const page = await open(browser, { path: "/#/policy/api", expected });
  await page.locator("#hardest tr").first().waitFor();
  assert.match(await page.locator("#hardest").innerText(), /alice/);
  assert.equal(await page.locator("#hardest button").count(), 0, "a key can't be looked into");
  await page.goto(`${URL_}/#/key`);
  assert.equal(await page.locator("[data-action], #key-form").count(), 0);
  assert.match(await page.locator("main").innerText(), /needs a login/);

  // From elsewhere they are not.
  const far = await open(browser, { path: "/#/policy/api", extraHTTPHeaders: { "x-forwarded-for": "203.0.113.7" } });
  await far.locator("#hardest tr").first().waitFor();
  assert.ok(!(await far.locator("main").innerText()).includes("alice"));
  assert.match(await far.locator("main").innerText(), /hidden/);
  content(far);

  // The form.
  await page.locator("#log-in").click();
  await page.locator("#token").fill("guessed-it");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#login-problem").textContent !== "");
  assert.equal(await page.locator("#token").getAttribute("type"), "password");
  await page.locator("#token").fill(TOKEN);
  await page.keyboard.press("Enter");
  await page.locator("#log-out").waitFor();
  await lookInto(page, "api", "alice");
  await page.locator('[data-action="reset"]').click();
  await page.locator("#confirm-go").click();
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.equal((await check("api", "alice")).status, 200);

  // Where the token is afterwards: nowhere.
  const kept = await page.evaluate(() => [location.href, document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.documentElement.outerHTML].join("\n"));
  assert.ok(!kept.includes(TOKEN));
  const cookies = await page.context().cookies();
  assert.equal(cookies.length, 1);
  assert.ok(cookies[0].httpOnly && cookies[0].sameSite === "Strict" && !cookies[0].value.includes(TOKEN), JSON.stringify(cookies));

  // It outlives a reload of the page, and ends with a logout.
  await page.reload();
  await page.locator("#log-out").click();
  await page.locator("#log-in").waitFor();
  await page.goto(`${URL_}/#/key`);
  assert.equal(await page.locator("[data-action], #key-form").count(), 0);
  content(page);
});
