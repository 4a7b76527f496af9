// An action on the page is confirmed, changes the next decision and is recorded in the journal.

import { assert, check, assertNoComplaints, inspectKey, open, run, URL_ } from "./browser.mjs";

await run(async (browser) => {
  for (let i = 0; i < 5; i++) assert.equal((await check("api", "alice")).status, 200);
  assert.equal((await check("api", "alice")).status, 429);
  const page = await open(browser);
  await inspectKey(page, "api", "alice");

  // Nothing happens without a confirmation.
  await page.locator('[data-action="reset"]').click();
  assert.match(await page.locator("#confirm-text").innerText(), /deletes/);
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.equal((await check("api", "alice")).status, 429);

  await page.locator('[data-action="reset"]').click();
  await page.locator("#confirm-go").click();
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.match(await page.locator("#key-done").innerText(), /Reset/);
  assert.equal((await check("api", "alice")).status, 200, "a reset takes effect with the next decision");

  // The preset values would change something: twice the limit, for two hours.
  await page.locator('[data-action="override"]').first().click();
  assert.equal(await page.locator('input[name="limits"]').inputValue(), "10/1h");
  assert.equal(await page.locator('input[name="for"]').inputValue(), "2h");
  assert.match(await page.locator("#confirm-text").innerText(), /gets 10\/1h instead of 5\/1h/);
  await page.locator('input[name="limits"]').fill("5/1h");
  assert.match(await page.locator("#confirm-text").innerText(), /has 5\/1h already/, "the present limits change nothing");
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });

  const override = async (kind, fill) => {
    await page.locator('[data-action="override"]').first().click();
    await page.locator(`#kind-${kind}`).check();
    await fill();
    await page.locator("#confirm-go").click();
  };
  await override("ban", async () => {
    await page.locator('input[name="for"]').fill("soon");
    assert.equal(await page.locator("#confirm-go").innerText(), "Ban");
  });
  await page.waitForFunction(() => document.querySelector("#confirm-problem").textContent !== "");
  assert.match(await page.locator("#confirm-problem").innerText(), /not a duration/, "the dialog shows the error");
  await page.locator('input[name="for"]').fill("30m");
  await page.locator('input[name="note"]').fill("<b>scraper</b>");
  await page.locator("#confirm-go").click();
  await page.locator("dialog").waitFor({ state: "detached" });
  const banned = await check("api", "alice");
  assert.deepEqual([banned.status, banned.body.reason], [403, "banned"]);
  assert.ok(banned.body.retry_after_ms > 29 * 60_000, "until the ban ends");
  await page.locator("#key-override:not([hidden])").waitFor();
  assert.match(await page.locator("#key-override").innerText(), /Ban: every request is denied.*<b>scraper<\/b>/s);
  await page.waitForFunction(() => document.querySelector('#key-limits [data-figure="remaining"]').dataset.value === "0");

  assert.equal(await page.locator('main [data-action="lift"]').first().innerText(), "Remove the ban…");

  await override("limits", async () => {
    await page.locator('input[name="limits"]').fill("50/1h");
    await page.locator("#end-good").check();
  });
  await page.locator("dialog").waitFor({ state: "detached" });
  const more = await check("api", "alice");
  assert.deepEqual([more.status, more.body.limit], [200, "50/1h"]);
  const activeOverride = page.locator('#overrides tr[data-label="alice"]');
  await activeOverride.waitFor();
  assert.match(await activeOverride.innerText(), /other limits: 50\/1h.*permanently/s);

  await override("exempt", async () => {});
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.equal((await check("api", "alice")).body.charged_at_us, null);

  await page.locator('#overrides [data-action="lift"]').click();
  await page.locator("#confirm-go").click();
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.equal((await check("api", "alice")).body.limit, "5/1h", "the override was removed");
  await activeOverride.waitFor({ state: "detached" });

  await page.goto(`${URL_}/#/`);
  await page.locator('#journal [data-kind="lift"]').waitFor();
  const kinds = await page.locator("#journal li").evaluateAll((all) => all.map((line) => line.dataset.kind));
  assert.deepEqual(kinds, ["lift", "exemption", "override", "ban", "reset", "started"]);
  assert.match(await page.locator('#journal [data-kind="ban"]').innerText(), /ban of alice under api for 30m \(<b>scraper<\/b>\)/);
  assert.match(await page.locator('#journal [data-kind="lift"]').innerText(), /removed exemption of alice under api/);
  assert.match(await page.locator('#journal [data-kind="reset"]').innerText(), /127\.0\.0\.1/);
  const refused = page.complaints().filter((text) => !/status of 400/.test(text));
  assert.deepEqual(refused, [], "the browser reports the one refused request and nothing else");
  assertNoComplaints({ complaints: () => refused });
});
