// A service without policies, without traffic and without a named policy: each view says what to do next, and none reports an outage.

import { createInterface } from "node:readline";

import { assert, accessibilityViolations, assertNoComplaints, check, open, run, URL_ } from "./browser.mjs";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const expectLine = async (line) => assert.equal((await lines.next()).value, line);

await run(async (browser) => {
  const page = await open(browser, { bypassCSP: true, expected: [/status of (400|404)/] });
  const steps = page.locator("#first-steps");
  await steps.waitFor();
  assert.match(await steps.innerText(), /no policies.*\[policies\.api\].*curl .*"limits"/s);
  assert.match(await page.locator("#summary").innerText(), /^No traffic\. Store: healthy\./);
  assert.deepEqual(await accessibilityViolations(page), []);
  console.log("empty");
  await expectLine("configured");

  // The command of the page works as it is: it is a request that the service admits.
  await page.locator("#first-steps", { hasText: '"policy":"api"' }).waitFor();
  const command = await steps.locator("pre").innerText();
  assert.ok(command.includes(`${URL_}/v1/check`), command);
  const body = JSON.parse(/-d '(.*)'/.exec(command)[1]);
  assert.equal((await check(body.policy, body.key)).status, 200);
  await steps.waitFor({ state: "detached" });

  // Empty lists.
  await page.goto(`${URL_}/#/policy/api`);
  await page.locator("#counted", { hasText: "No key was denied" }).waitFor();
  assert.match(await page.locator("main").innerText(), /Keys that use at least four fifths of a limit, of those that were denied or came near their limit in the last 5 to 10 minutes\..*There is no such key\. To look at any key, inspect it\./s);
  const denied = page.locator("section", { has: page.getByRole("heading", { name: "Most denied" }) });
  assert.match(await denied.innerText(), /No key was denied in the last 5 to 10 minutes\.\s+To look at any key, inspect it\./);
  await denied.getByRole("link", { name: "inspect it" }).click();
  await page.locator("#key-form").waitFor();
  assert.equal(await page.locator("#key-policy").inputValue(), "api");
  await page.goto(`${URL_}/#/key`);
  assert.match(await page.locator("main").innerText(), /Select a policy and enter a key/);
  assert.match(await page.locator("main").innerText(), /No key has other limits, a ban or an exemption\. To set one, inspect a key/);

  // An unknown policy.
  const assertUp = async () => {
    await page.locator('#pulse[data-live="live"]').waitFor();
    assert.equal(await page.locator("#banner p").count(), 0, "it is not an outage");
  };
  await page.goto(`${URL_}/#/policy/nowhere`);
  await page.locator("#no-policy").waitFor();
  assert.equal(await page.locator("h1").innerText(), "No such policy");
  await assertUp();
  await page.getByRole("link", { name: "Go to the overview" }).click();
  await page.locator("#summary").waitFor();
  await page.goto(`${URL_}/#/key?policy=nowhere&key=alice`);
  await page.locator("#key-problem", { hasText: "No such policy: nowhere" }).waitFor();
  await assertUp();
  await page.goto(`${URL_}/#/key?policy=secret&hash=%230000000000000000`);
  await page.locator("#key-problem", { hasText: "does not remember this key" }).waitFor();
  await assertUp();

  // A policy is removed while its page is open.
  await page.goto(`${URL_}/#/policy/api`);
  await page.locator("#counted", { hasText: "No key was denied" }).waitFor();
  console.log("seen");
  await expectLine("removed");
  await page.locator("#no-policy").waitFor();
  await assertUp();
  assertNoComplaints(page);
});
