// The overview lists the leases of this node by key, and the page of a key also has those of other nodes; in light, in dark and on
// a phone.

import { assert, assertNoComplaints, check, devices, inspectKey, open, openOn, request, run, verifyView } from "./browser.mjs";

const OTHER = process.env.TIDEGATE_OTHER;

/** Sends requests until `end` is called. Each key has another number of requests at once. */
function traffic() {
  let over = false;
  const long = "a-very-long-key-".repeat(12);
  const hot = [["hot", "alice", 9], ["hot", ["acme", "/v1/export"], 6], ["hot", long, 4], ["tight", "mallory", 5], ["hidden", "s3cr3t", 3]];
  const other = async () => {
    const body = JSON.stringify({ policy: "hot", key: "alice" });
    await (await fetch(`${OTHER}/v1/check`, { method: "POST", headers: { "content-type": "application/json" }, body })).arrayBuffer();
  };
  const sending = (async () => {
    while (!over) {
      await Promise.all([...hot.flatMap(([policy, key, times]) => Array.from({ length: times }, () => check(policy, key))), other(), other()]);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  return { async end() {
    over = true;
    await sending;
  } };
}

const cell = (row, name) => row.locator(`[data-figure="${name}"]`);

await run(async (browser) => {
  const flow = traffic();
  const page = await open(browser);
  const rows = page.locator("#leases tr");
  await rows.nth(4).waitFor();
  const alice = page.locator('#leases tr[data-label="alice"]');
  await page.waitForFunction(() => Number(document.querySelector('#leases tr[data-label="alice"] [data-figure="admitted"]').dataset.value) > 50);
  await page.waitForFunction(() => Number(document.querySelector('#leases tr[data-label="alice"] [data-figure="left"]').dataset.value) > 0);
  assert.match(await cell(alice, "ends").innerText(), /^\d+(\.\d+)? (s|ms)$/);
  // The table shows what the API reports, in its order.
  const { body } = await request("GET", "/v1/overview");
  const counts = body.store.leases.keys.map(({ admitted, denied }) => admitted + denied);
  assert.deepEqual(counts, [...counts].sort((a, b) => b - a), "the keys with most decisions are first");
  await page.waitForFunction(() => {
    const { keys } = window.received.tick?.store.leases ?? { keys: [] };
    const shown = [...document.querySelectorAll("#leases tr")].map((row) => [row.dataset.policy, row.querySelector('[data-figure="admitted"]').dataset.value, row.querySelector('[data-figure="denied"]').dataset.value].join());
    return keys.length === 5 && JSON.stringify(shown) === JSON.stringify(keys.map(({ policy, admitted, denied }) => [policy, admitted, denied].join()));
  });
  // A key whose limit is reached has denials.
  await page.waitForFunction(() => Number(document.querySelector('#leases tr[data-policy="tight"] [data-figure="denied"]').dataset.value) > 0);
  // A hidden key is a hash, and the link leads to its page.
  const hidden = page.locator('#leases tr[data-policy="hidden"]');
  assert.match(await hidden.getAttribute("data-label"), /^#[0-9a-f]{16}$/);
  assert.ok(!(await page.content()).includes("s3cr3t"));
  await hidden.locator("a.key-link").click();
  await page.locator('#key-limits [data-limit="1000/1h"]').waitFor();

  // The page of a key has the leases of both nodes, and says which units this node has.
  await inspectKey(page, "hot", "alice");
  await page.waitForFunction(() => document.querySelectorAll("#key-reservations tbody tr").length >= 2);
  const own = page.locator("#key-own-lease");
  await page.waitForFunction(() => /^This node admits from a lease of [\d,]+ units?, with [\d,]+ left\. .* It has admitted/.test(document.querySelector("#key-own-lease").textContent));
  assert.match(await own.innerText(), /denied 0 by remembered denials\.$/);
  assertNoComplaints(page);

  for (const device of Object.keys(devices)) {
    const other = await openOn(browser, device);
    await other.locator("#leases tr").nth(4).waitFor();
    await verifyView(other, "leases", device);
    await inspectKey(other, "hot", "alice");
    await other.locator("#key-reservations tbody tr").first().waitFor();
    await verifyView(other, "key-leases", device);
    assertNoComplaints(other);
    await other.close();
  }
  await flow.end();
});
