// The page of a key: its address survives a reload, denials are beside admissions, and every policy of the key is listed.

import { assert, check, assertNoComplaints, inspectKey, open, request, run, value, URL_ } from "./browser.mjs";

await run(async (browser) => {
  for (let i = 0; i < 9; i++) await check("api", "alice");
  for (let i = 0; i < 3; i++) await check("api-next", "alice");
  for (let i = 0; i < 4; i++) await check("secret", "s3cr3t");
  await check("buckets", "s3cr3t");

  // From the overview to the key, and to the override dialog.
  const page = await open(browser);
  await page.locator('#hardest-now tr[data-label="alice"] .key-link').click();
  await page.locator("#key-requests:not([hidden])").waitFor();
  assert.match(page.url(), /#\/key\?policy=api&key=alice$/);
  assert.equal(await page.locator("#key-h").innerText(), "alice under api");
  assert.deepEqual([await value(page, "admitted", "#key-requests"), await value(page, "denied", "#key-requests")], [5, 4]);
  assert.match(await page.locator("#key-requests").innerText(), /Last denied by: limit 5\/1h/);
  await page.waitForFunction(() => document.querySelectorAll("#known tr").length === 2);
  const known = () => page.locator("#known tr").evaluateAll((rows) => rows.map((row) => [row.dataset.policy, ...[...row.querySelectorAll("[data-figure]")].map((figure) => Number(figure.dataset.value))]));
  assert.deepEqual(await known(), [["api", 5, 4], ["api-next", 2, 1]], "a would-be denial is not charged");

  // A reload shows the same key.
  await page.reload();
  await page.locator("#key-requests:not([hidden])").waitFor();
  assert.equal(await page.locator("#key-h").innerText(), "alice under api");
  assert.deepEqual([await value(page, "admitted", "#key-requests"), await value(page, "denied", "#key-requests")], [5, 4]);

  // Denials and admissions are counted while the page is open, under each algorithm.
  for (const policy of ["login", "buckets", "fixed", "steady"]) {
    await inspectKey(page, policy, "bob");
    await page.locator("#key-requests:not([hidden])").waitFor();
    const outcomes = [];
    for (let i = 0; i < 25; i++) outcomes.push((await check(policy, "bob")).status);
    const admitted = outcomes.filter((status) => status === 200).length;
    await page.waitForFunction(([admitted, denied]) => {
      const shown = (name) => Number(document.querySelector(`#key-requests [data-figure="${name}"]`).dataset.value);
      return shown("admitted") === admitted && shown("denied") === denied;
    }, [admitted, 25 - admitted]);
  }

  // An event that arrives between a change of the address and its effect does not undo the change.
  await page.goto(`${URL_}/#/key?policy=api&key=alice`);
  await page.waitForFunction(() => window.received.key?.policy === "api" && document.querySelector("#key-h").innerText === "alice under api");
  await page.evaluate(() => {
    location.hash = "#/try";
    window.source.dispatchEvent(new MessageEvent("key", { data: JSON.stringify(window.received.key) }));
  });
  await page.locator("#try-limit").waitFor();

  // Another policy of the key is one click away, and its would-be denials are not red.
  await page.goto(`${URL_}/#/key?policy=api&key=alice`);
  await page.locator('#known tr[data-policy="api-next"] a').click();
  await page.locator("#key-requests:not([hidden])").waitFor();
  await page.locator("#key-h").filter({ hasText: "alice under api-next" }).waitFor();
  assert.match(await page.locator("main").innerText(), /would be denied/);
  assert.equal(await page.locator('#key-requests [data-tone="bad"], #key-limits [data-tone="bad"]').count(), 0);

  // The link to the override opens its dialog. The address is that of the key again.
  await page.goto(`${URL_}/#/`);
  await page.locator('#hardest-now tr[data-label="alice"] a', { hasText: "Override" }).click();
  await page.locator("#confirm").waitFor();
  await page.locator("#kind-ban").check();
  await page.locator("#confirm-go").click();
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.match(page.url(), /#\/key\?policy=api&key=alice$/);
  await page.waitForFunction(() => document.querySelector('#known tr[data-policy="api"]')?.lastChild.textContent === "ban");

  // A hidden key is in the address as its hash, and nothing on the page reveals it.
  await page.goto(`${URL_}/#/`);
  await page.locator('#hardest-now tr[data-policy="secret"] .key-link').click();
  await page.locator("#key-requests:not([hidden])").waitFor();
  assert.match(page.url(), /#\/key\?policy=secret&hash=%23[0-9a-f]{16}$/);
  await page.reload();
  await page.locator("#known tr").waitFor();
  assert.deepEqual((await known()).map(([policy]) => policy), ["secret"], "a policy that shows its keys would reveal the key");
  assert.ok(!(await page.evaluate(() => document.documentElement.outerHTML + location.href + JSON.stringify(window.received.key) + JSON.stringify(window.received.policies))).includes("s3cr3t"));
  await page.locator('[data-action="reset"]').click();
  await page.locator("#confirm-go").click();
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.equal((await check("secret", "s3cr3t")).status, 200, "a hidden key can be reset");

  // A hidden key that was entered is replaced by its hash in the address, and found again after a reload.
  await inspectKey(page, "secret", "entered");
  await page.waitForFunction(() => location.hash.includes("hash="));
  assert.ok(!page.url().includes("entered"));
  await page.reload();
  await page.locator("#key-limits [data-limit]").waitFor();
  assert.match(await page.locator("#key-h").innerText(), /^#[0-9a-f]{16} under secret$/);
  assert.equal((await request("GET", "/v1/inspect?policy=secret&key=entered")).body.label, (await page.locator("#key-h .key").innerText()));
  assertNoComplaints(page);
});
