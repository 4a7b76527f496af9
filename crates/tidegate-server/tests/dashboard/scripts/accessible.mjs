// Every view in light, in dark and on a phone violates no accessibility rule, fits the window and is usable by keyboard.
// Screenshots are kept for review.

import { assert, check, assertNoComplaints, devices, inspectKey, open, openOn, request, run, traffic, verifyView, URL_ } from "./browser.mjs";

const OVERRIDES = [
  { key: "partner", kind: "limits", limits: ["500/1h", "5000/1d"], permanent: true, note: "agreed with support until the new contract" },
  { key: ["acme", "/v1/export"], kind: "ban", for: "2h" },
  { key: "a-very-long-key-".repeat(12), kind: "exempt", for: "30d", note: "monitoring" },
];

async function everyView(page, device) {
  const verify = (name) => verifyView(page, name, device);
  await page.locator("#hardest-now tr").first().waitFor();
  await verify("overview");
  await page.goto(`${URL_}/#/policy/nowhere`);
  await page.locator("#no-policy").waitFor();
  await verify("no-policy");
  for (const [name, policy] of [["policy", "api"], ["shadow", "api-next"]]) {
    await page.goto(`${URL_}/#/policy/${policy}`);
    await page.locator("#hardest tr").first().waitFor();
    if (name === "policy") await page.locator("#candidates a").waitFor();
    await verify(name);
  }
  await page.goto(`${URL_}/#/policy/unpaired`);
  await page.locator("#compare-with").waitFor();
  await verify("unpaired");
  for (const [name, policy, key] of [["key-log", "api", "user-1"], ["key-counter", "login", "mallory"], ["key-buckets", "buckets", "eve"], ["key-gcra", "steady", "eve"], ["key-fixed", "fixed", "eve"]]) {
    await inspectKey(page, policy, key);
    await page.locator("#known tr").first().waitFor();
    await page.locator("#key-requests:not([hidden])").waitFor();
    await page.waitForFunction((count) => document.querySelectorAll("#overrides tr").length === count, OVERRIDES.length);
    const heights = await page.locator("#overrides button").evaluateAll((all) => all.map((button) => button.offsetHeight));
    assert.ok(heights.every((height) => height < 45), `a long key breaks the words beside it, ${device}: ${heights}`);
    await verify(name);
  }
  for (const action of ["reset", "override"]) {
    await page.locator(`[data-action="${action}"]`).first().click();
    await page.locator("#confirm").waitFor();
    await verify(`dialog-${action}`);
    await page.keyboard.press("Escape");
  }
  await page.goto(`${URL_}/#/try`);
  await page.locator("#try-limit").fill("10/1h");
  await page.locator("#try-limit").press("Tab");
  await page.locator('[data-fire="50"]').click();
  await page.waitForFunction(() => [...document.querySelectorAll(".lane")].every((lane) => Number(lane.querySelector('[data-figure="denied"]').dataset.value) >= 40));
  await verify("try");
  for (const box of await page.locator(".algorithms input[type=checkbox]").all()) await box.uncheck();
  await verify("try-nothing");
}

/** Goes by keyboard from the top of the page to a policy and to the reset of a key. The focus is visible at each step. */
async function byKeyboard(page) {
  const focused = () => page.evaluate(() => {
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(document.activeElement);
    return { text: document.activeElement.textContent.trim().slice(0, 40), id: document.activeElement.id, tag: document.activeElement.tagName,
      visible: (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || boxShadow !== "none" };
  });
  const reach = async (is, what) => {
    for (let i = 0; i < 80; i++) {
      await page.keyboard.press("Tab");
      const at = await focused();
      if (at.tag !== "BODY" && at.tag !== "IFRAME") assert.ok(at.visible, `the focus is not visible: ${JSON.stringify(at)}`);
      if (is(at)) return;
    }
    assert.fail(`${what} is not reachable by Tab`);
  };
  await page.goto(`${URL_}/#/`);
  await page.locator("tr[data-policy]").first().waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await reach(({ id }) => id === "skip", "the skip link");
  await reach(({ text, tag }) => tag === "A" && text === "api", "the policy");
  await page.keyboard.press("Enter");
  await page.locator("#hardest a").first().waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1", "a new view focuses its heading");
  await reach(({ tag, text }) => tag === "A" && text.startsWith("user-"), "a denied key");
  await page.keyboard.press("Enter");
  await page.locator('[data-action="reset"]').waitFor();
  await reach(({ text }) => text.startsWith("Reset"), "the reset");
  await page.keyboard.press("Enter");
  await page.locator("#confirm").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), "confirm-cancel", "the harmless button has the focus");
  await page.keyboard.press("Escape");
  await page.locator("#confirm").waitFor({ state: "detached" });
  assert.match((await focused()).text, /^Reset/, "the focus is back where it was");
}

await run(async (browser) => {
  const flow = traffic();
  for (let i = 0; i < 4; i++) await check("api", "user-1");
  for (const override of OVERRIDES) assert.equal((await request("POST", "/v1/override", { policy: "fixed", ...override })).status, 200);
  for (const device of Object.keys(devices)) {
    const page = await openOn(browser, device, { expected: [/status of 404/] });
    await everyView(page, device);
    assertNoComplaints(page);
    await page.close();
  }
  const page = await open(browser, devices.light);
  await byKeyboard(page);
  assertNoComplaints(page);
  await flow.end();
});
