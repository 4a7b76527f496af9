// Where even looking needs a token, there is a form and nothing else.

import { assert, check, content, open, scene } from "./kit.mjs";

await scene(async (browser) => {
  const page = await open(browser, { expected: [/status of 401/] });
  await page.locator("#token").waitFor();
  assert.ok(!(await page.locator("body").innerText()).includes("api"), "nothing is told");
  assert.equal(await page.evaluate(() => JSON.stringify(window.told)), "{}");
  await page.locator("#token").fill("use-me-now");
  await page.keyboard.press("Enter");
  await page.locator('tr[data-policy="api"]').waitFor();
  assert.equal((await check("api", "alice")).status, 401, "others still need theirs");
  assert.equal(await page.locator("#log-in").count(), 1, "the admin token may still be shown");
  content(page);
});
