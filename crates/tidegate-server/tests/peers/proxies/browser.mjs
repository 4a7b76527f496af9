// A shop behind each of the proxies whose ports are given: three requests fit, the fourth is denied.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.env.TIDEGATE_NODE, "node_modules", "x"));
const { chromium } = require("playwright-core");

const ports = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--host-resolver-rules=MAP shop.example 127.0.0.1"],
});
try {
  for (const port of ports) {
    const page = await browser.newPage();
    const first = await page.goto(`http://shop.example:${port}/`);
    assert.equal(first.status(), 200);
    const [ordered] = await Promise.all([page.waitForResponse("**/order"), page.click("button")]);
    assert.equal(ordered.status(), 200);
    await page.waitForURL("**/order");
    const call = () =>
      page.evaluate(async () => {
        const headers = { "content-type": "application/json" };
        const answer = await fetch("/api", { method: "POST", headers, body: JSON.stringify({ item: 1 }) });
        return { status: answer.status, wait: Number(answer.headers.get("retry-after")), limit: answer.headers.get("ratelimit") };
      });
    assert.equal((await call()).status, 200);
    const denied = await call();
    assert.equal(denied.status, 429);
    assert.ok(denied.wait > 0 && denied.limit.startsWith('"public-api";r=0;t='), JSON.stringify(denied));
    await page.close();
  }
} finally {
  await browser.close();
}
console.log(`${ports.length} proxies`);
