// Every view in light, in dark and on a phone: no rule of accessibility broken, nothing wider than the window, and all of it by keyboard.
// Pictures of each are left for people to look at.

import { assert, broken, check, content, lookInto, open, overflow, picture, scene, traffic, URL_ } from "./kit.mjs";

const looks = {
  light: { colorScheme: "light", viewport: { width: 1280, height: 900 } },
  dark: { colorScheme: "dark", viewport: { width: 1280, height: 900 } },
  phone: { colorScheme: "light", viewport: { width: 360, height: 780 }, isMobile: true, hasTouch: true },
};

async function every(page, look) {
  const seen = async (name) => {
    assert.deepEqual(await broken(page), [], `${name}, ${look}`);
    assert.ok((await overflow(page)) <= 0, `${name}, ${look}: wider than the window by ${await overflow(page)}`);
    await picture(page, `${name}-${look}`);
  };
  await page.locator("tr[data-policy]").first().waitFor();
  await seen("overview");
  for (const [name, policy] of [["policy", "api"], ["shadow", "api-next"]]) {
    await page.goto(`${URL_}/#/policy/${policy}`);
    await page.locator("#hardest tr").first().waitFor();
    await seen(name);
  }
  for (const [name, policy, key] of [["key-log", "api", "user-1"], ["key-counter", "login", "mallory"], ["key-buckets", "buckets", "eve"], ["key-gcra", "steady", "eve"], ["key-fixed", "fixed", "eve"]]) {
    await lookInto(page, policy, key);
    await seen(name);
  }
  for (const action of ["reset", "override"]) {
    await page.locator(`[data-action="${action}"]`).first().click();
    await page.locator("#confirm").waitFor();
    await seen(`dialog-${action}`);
    await page.keyboard.press("Escape");
  }
  await page.goto(`${URL_}/#/try`);
  await page.locator("#try-limit").fill("10/1h");
  await page.locator("#try-limit").press("Tab");
  await page.locator('[data-fire="50"]').click();
  await page.waitForFunction(() => [...document.querySelectorAll(".lane")].every((lane) => Number(lane.querySelector('[data-figure="denied"]').dataset.value) >= 40));
  await seen("try");
}

/** By keyboard alone: from the top of the page into a policy, and to a key's reset, seeing at each step where one is. */
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
      if (at.tag !== "BODY" && at.tag !== "IFRAME") assert.ok(at.visible, `where is the focus? ${JSON.stringify(at)}`);
      if (is(at)) return;
    }
    assert.fail(`${what} can't be reached by Tab`);
  };
  await page.goto(`${URL_}/#/`);
  await page.locator("tr[data-policy]").first().waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await reach(({ id }) => id === "skip", "the skip link");
  await reach(({ text, tag }) => tag === "A" && text === "api", "the policy");
  await page.keyboard.press("Enter");
  await page.locator("#hardest button").first().waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1", "a new view begins at its heading");
  await reach(({ tag, text }) => tag === "BUTTON" && text.startsWith("user-"), "a key that was hit");
  await page.keyboard.press("Enter");
  await page.locator('[data-action="reset"]').waitFor();
  await reach(({ text }) => text.startsWith("Reset"), "the reset");
  await page.keyboard.press("Enter");
  await page.locator("#confirm").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), "confirm-cancel", "what does no harm comes first");
  await page.keyboard.press("Escape");
  await page.locator("#confirm").waitFor({ state: "detached" });
  assert.match((await focused()).text, /^Reset/, "the focus is back where it was");
}

await scene(async (browser) => {
  const flow = traffic();
  for (let i = 0; i < 4; i++) await check("api", "user-1");
  for (const [name, settings] of Object.entries(looks)) {
    const page = await open(browser, { ...settings, bypassCSP: true, reducedMotion: "reduce" });
    await every(page, name);
    content(page);
    await page.close();
  }
  const page = await open(browser, looks.light);
  await byKeyboard(page);
  content(page);
  await flow.end();
});
