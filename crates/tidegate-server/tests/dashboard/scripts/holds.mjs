// The page of a key lists its open holds and leases with the times of their ends, in light, in dark and on a phone.

import { assert, accessibilityViolations, assertNoComplaints, inspectKey, open, overflow, picture, request, run } from "./browser.mjs";

const reserve = async (policy, key, more = {}) => (await request("POST", "/v1/reserve", { policy, key, ttl_ms: 3_600_000, ...more })).body;

await run(async (browser) => {
  const soon = await reserve("jobs", "import", { ttl_ms: 600_000 });
  await reserve("jobs", "import", { expires: "spent", cost: 2 });
  const page = await open(browser);
  await inspectKey(page, "jobs", "import");
  const panel = page.locator("#key-reservations");
  await panel.locator("tbody tr").nth(1).waitFor();
  const rows = () => panel.locator("tbody tr").evaluateAll((rows) => rows.map((row) => row.innerText.replaceAll(/\s+/g, " ")));
  const [first, second] = await rows();
  assert.match(first, /^hold 1 \d+ s ago (10 min 00 s|9 min \d\d s) at \d\d:\d\d:\d\d units are given back$/);
  assert.match(second, /^hold 2 \d+ s ago (1 h 00 min|59 min \d\d s) at \d\d:\d\d:\d\d units stay spent$/);
  assert.match(await panel.innerText(), /2 open with 3 units/);

  // A limit on open holds has figures and no window.
  const card = page.locator('#key-limits [data-limit="4/inflight"]');
  assert.equal(await card.locator('[data-figure="used"]').getAttribute("data-value"), "3");
  assert.equal(await card.locator("svg").count(), 0);
  assert.match(await card.innerText(), /This limit has no window/);
  assert.equal(await page.locator('#key-limits [data-limit="60/1h"] svg').count(), 1);

  assert.match(await page.locator("#key-summary").innerText(), /^1 unit left\. The algorithm is sliding_log\.$/);

  // The panel follows the holds, and is hidden without any.
  const remaining = await page.locator('#key-reservations [data-figure="ends"]').first().getAttribute("data-left");
  await page.waitForFunction((before) => Number(document.querySelector('#key-reservations [data-figure="ends"]').dataset.left) < Number(before), remaining);
  await request("POST", "/v1/release", { reservation: soon.reservation });
  await page.waitForFunction(() => document.querySelectorAll("#key-reservations tbody tr").length === 1);
  await page.waitForFunction(() => document.querySelector('#key-limits [data-limit="4/inflight"] [data-figure="used"]').dataset.value === "2");
  await request("POST", "/v1/reset", { policy: "jobs", key: "import" });
  await panel.waitFor({ state: "hidden" });

  // The units of a lease count, although no entry has them.
  await request("POST", "/v1/lease", { policy: "api", key: "hot", asked: 2, ttl_ms: 10_000 });
  await inspectKey(page, "api", "hot");
  await page.waitForFunction(() => document.querySelector('#key-limits [data-figure="used"]')?.dataset.value === "2");
  assert.match(await panel.innerText(), /lease.*all of it counts as spent/s);

  // Only some of many holds are listed.
  for (let i = 0; i < 120; i++) await reserve("many", "crowd", { ttl_ms: 600_000 + i });
  for (const [device, settings] of Object.entries({
    light: { colorScheme: "light", viewport: { width: 1280, height: 900 } },
    dark: { colorScheme: "dark", viewport: { width: 1280, height: 900 } },
    phone: { colorScheme: "light", viewport: { width: 360, height: 780 }, isMobile: true, hasTouch: true },
  })) {
    const other = await open(browser, settings);
    await inspectKey(other, "many", "crowd");
    await other.locator("#key-reservations tbody tr").nth(19).waitFor();
    assert.equal(await other.locator("#key-reservations tbody tr").count(), 20);
    assert.equal(await other.locator("#key-summary").innerText(), "880 units left.");
    assert.match(await other.locator("#key-reservations").innerText(), /120 open with 120 units.*The first 20 to end are listed/s);
    assert.deepEqual(await accessibilityViolations(other), [], device);
    assert.ok((await overflow(other)) <= 0, `${device}: wider than the window`);
    await picture(other, `key-holds-${device}`);
    assertNoComplaints(other);
  }
  assertNoComplaints(page);
});
