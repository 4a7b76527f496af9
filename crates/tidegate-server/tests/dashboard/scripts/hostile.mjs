// Hostile keys are shown as text.

import { readFileSync } from "node:fs";

import { assert, request, assertNoComplaints, inspectKey, open, overflow, picture, run, URL_ } from "./browser.mjs";

const keys = JSON.parse(readFileSync(process.env.TIDEGATE_KEYS, "utf8"));

await run(async (browser) => {
  for (const viewport of [{ width: 1280, height: 900 }, { width: 360, height: 780 }]) {
    const page = await open(browser, { path: "/#/policy/api", viewport });
    await page.waitForFunction(() => document.querySelectorAll("#hardest tr").length === 20);
    const { body: hits } = await request("GET", "/v1/hits?policy=api");
    assert.equal(hits.denials, keys.length + 24 * 300);
    const shown = await page.locator("#hardest tr").evaluateAll((rows) => rows.map((row) => row.querySelector(".key").textContent));
    const escaped = await page.evaluate(async (labels) => {
      const { visible } = await import("/assets/format.js");
      return labels.map(visible);
    }, hits.hardest.map(({ label }) => label));
    assert.deepEqual(shown, escaped, "every character of the key is shown");
    assert.ok(hits.hardest.every(({ label }) => keys.slice(-24).includes(label)), "the keys with the most denials are shown");
    assert.ok((await overflow(page)) <= 0, "a long key does not widen the page");
    await picture(page, `hostile-${viewport.width}`);

    // The function that draws every key makes one text node of each hostile key.
    const harm = await page.evaluate(async (keys) => {
      const { keyElement } = await import("/assets/dom.js");
      const place = document.body.appendChild(document.createElement("div"));
      const wrong = keys.filter((key) => {
        const element = keyElement(key);
        place.append(element);
        const [text, ...more] = element.childNodes;
        return more.length > 0 || text.nodeType !== Node.TEXT_NODE || /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text.data);
      });
      const foreign = place.querySelectorAll(":not(bdi)").length;
      place.remove();
      return { wrong, foreign, harmed: window.harmed };
    }, keys);
    assert.deepEqual(harm, { wrong: [], foreign: 0, harmed: undefined });

    // Inspect a key, override it with a hostile note, and show it in the journal.
    const key = keys.at(-12 + 0);
    for (const some of [key, keys.at(-11), keys.at(-8)]) {
      await inspectKey(page, "api", some.replace(/[\r\n]/g, ""));
      assert.ok((await overflow(page)) <= 0);
    }
    await request("POST", "/v1/override", { policy: "api", key, kind: "ban", for: "1h", note: "<img src=x onerror=window.harmed=1>" });
    await page.locator("#overrides tr").waitFor();
    await page.goto(`${URL_}/#/`);
    await page.locator('#journal [data-kind="ban"]').first().waitFor();
    await page.locator("#hardest-now tr").nth(9).waitFor();
    assert.equal(await page.locator("#journal img, #journal script, #journal svg").count(), 0);
    assert.equal(await page.evaluate(() => window.harmed), undefined);
    assert.ok((await overflow(page)) <= 0);
    assertNoComplaints(page);
    await page.close();
  }
});
