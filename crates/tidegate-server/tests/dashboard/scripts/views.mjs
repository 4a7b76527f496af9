// Every view shows the figures of the service under live traffic.

import { assert, request, check, assertNoComplaints, figure, inspectKey, open, run, traffic, value, URL_ } from "./browser.mjs";

await run(async (browser) => {
  const flow = traffic();
  const page = await open(browser);

  // Overview. The page draws each event when it arrives, so the shown figures are those of the last event.
  await page.waitForFunction(() => window.received.tick?.last.denied > 0 && window.received.tick.hardest.length === 10);
  const seen = await page.evaluate(() => {
    const shown = (name, of = document) => Number(of.querySelector(`[data-figure="${name}"]`).dataset.value);
    const policies = [...document.querySelectorAll(".policies tr[data-policy]")].map((row) => [row.dataset.policy, shown("per_second", row), shown("denied_share", row)]);
    return { tick: window.received.tick, policies, ...Object.fromEntries(["per_second", "denied_share", "p50", "p99", "keys", "bytes"].map((name) => [name, shown(name)])) };
  });
  const { last, store } = seen.tick;
  assert.deepEqual([seen.per_second, seen.denied_share, seen.p50, seen.p99], [last.per_second, last.denied_share, last.p50_us, last.p99_us]);
  assert.deepEqual([seen.keys, seen.bytes], [store.keys, store.bytes]);
  const sum = (o) => o.allowed + o.limited + o.impossible + o.store_unavailable + o.shadow + o.banned;
  for (const policy of seen.tick.policies) {
    const denied = policy.mode === "shadow" ? policy.shadow : policy.limited + policy.impossible + policy.store_unavailable + policy.banned;
    const expected = [policy.name, sum(policy) / last.seconds, sum(policy) ? denied / sum(policy) : 0];
    assert.deepEqual(seen.policies.find(([name]) => name === policy.name), expected);
  }
  // Who is denied: the ten keys with the most denials over all policies, each with its policy and its limit.
  const hardest = await page.evaluate(() => ({
    sent: window.received.tick.hardest,
    shown: [...document.querySelectorAll("#hardest-now tr")].map((row) => [row.dataset.policy, row.dataset.label, Number(row.querySelector("b").dataset.value)]),
  }));
  assert.deepEqual(hardest.shown, hardest.sent.map(({ policy, label, recent }) => [policy, label, recent]));
  assert.equal(hardest.shown.length, 10);
  assert.match(await page.locator('#hardest-now tr[data-policy="login"]').innerText(), /mallory.*login.*limit 3\/1m/s);
  assert.ok(hardest.sent.every(({ policy }) => policy !== "api-next"), "a shadow policy denies nothing");
  // The policies with the most denials come first.
  const denials = await page.evaluate(async () => {
    const names = [...document.querySelectorAll(".policies tr[data-policy]")].map((row) => row.dataset.policy);
    const { history } = await (await fetch("/v1/overview")).json();
    const sum = (list) => (list ?? []).reduce((a, b) => a + b, 0);
    const denied = Object.fromEntries(history.policies.map((policy) => [policy.name, ["limited", "impossible", "store_unavailable", "banned"].reduce((all, id) => all + sum(policy[id]), 0)]));
    return { names, denied };
  });
  const denying = denials.names.filter((name) => denials.denied[name] > 0);
  assert.deepEqual(denials.names.slice(0, denying.length), denying, "denying policies are above the others");
  assert.ok(denials.names.indexOf("api-next") >= denying.length, JSON.stringify(denials));

  assert.equal(await page.locator("#journal li").first().getAttribute("data-kind"), "started");
  assert.match(await page.locator("main").innerText(), /Denying now: .* Store: healthy\./);
  for (const name of ["decisions", "latency"]) {
    const chart = page.locator(`[data-chart="${name}"] svg[role=img], svg[data-chart="${name}"]`).first();
    assert.ok((await chart.getAttribute("aria-label"))?.length > 20, `the chart of ${name} has a description`);
  }

  // A policy and its denied keys. The traffic ends first, so that the page and the API have the same figures.
  while ((await request("GET", "/v1/hits?policy=api")).body.hardest.length < 8) await check("api", "user-0");
  await flow.end();
  await page.goto(`${URL_}/#/policy/api`);
  await page.waitForFunction(() => window.received.hits?.policy === "api");
  const { body: hits } = await request("GET", "/v1/hits?policy=api");
  assert.equal(await value(page, "denials"), hits.denials);
  const rows = (id) => page.locator(`#${id} tr`).evaluateAll((all) => all.map((row) => [row.dataset.label, Number(row.querySelector("b").dataset.value)]));
  assert.deepEqual(await rows("hardest"), hits.hardest.map((hit) => [hit.label, hit.denials]));
  assert.deepEqual(await rows("nearest"), hits.nearest.map((hit) => [hit.label, hit.used]));
  assert.ok(hits.hardest.length === 8 && hits.nearest.length === 7, JSON.stringify(hits));
  assert.match(await page.locator("#policy-description").innerText(), /At most 5 units in any hour/);
  await page.goto(`${URL_}/#/policy/secret`);
  await page.waitForFunction(() => window.received.hits?.policy === "secret");
  await page.locator("#hardest tr").first().waitFor();
  assert.match(await page.locator("#hardest tr").first().innerText(), /#[0-9a-f]{16}/, "its keys are hashed");
  await page.goto(`${URL_}/#/policy/api-next`);
  await page.locator("#compare-with").waitFor();
  assert.equal(await page.locator("#compare-with").inputValue(), "api", "the policy that it is a candidate for is selected");
  assert.match(await page.locator("#comparison-summary").innerText(), /api-next would have denied .* api denied/);

  assert.equal(await page.locator('[data-tone="bad"][data-figure="denied_share"], [data-tone="bad"][data-figure="share_here"], #hardest [data-tone="denied"]').count(), 0, "would-be denials are not red");
  assert.match(await page.locator("main").innerText(), /would be denied/);
  await page.goto(`${URL_}/#/policy/strict-login`);
  await page.locator("#compare-with").waitFor();
  assert.equal(await page.locator("#compare-with").inputValue(), "login", "the configuration names the other policy");
  await page.goto(`${URL_}/#/policy/unpaired`);
  await page.locator("#compare-with").waitFor();
  assert.equal(await page.locator("#compare-with").inputValue(), "", "no unrelated policy is selected");
  assert.match(await page.locator("#comparison-summary").innerText(), /^Select the policy to compare with, or set candidate_for in the configuration\./);
  assert.equal(await figure(page, "share_there").isVisible(), false);
  await page.locator("#compare-with").selectOption("buckets");
  assert.match(await page.locator("#comparison-summary").innerText(), /unpaired would have denied .* buckets denied/);
  assert.equal(await figure(page, "share_there").isVisible(), true);
  await page.goto(`${URL_}/#/policy/login`);
  await page.locator("#candidates a").waitFor();
  assert.equal(await page.locator("#candidates a").innerText(), "strict-login");

  // A key under each algorithm.
  for (const [policy, key, limits] of [["api", "user-1", 1], ["login", "mallory", 2], ["buckets", "eve", 1], ["steady", "eve", 1], ["fixed", "eve", 1]]) {
    await check(policy, key);
    await inspectKey(page, policy, key);
    const shown = await page.evaluate(() => ({
      data: window.received.key,
      cards: [...document.querySelectorAll("#key-limits [data-limit]")].map((card) =>
        ["used", "remaining", "reset"].map((name) => Number(card.querySelector(`[data-figure="${name}"]`).dataset.value))),
    }));
    assert.equal(shown.cards.length, limits);
    assert.equal(await page.locator("#key-h").innerText(), `${key} under ${policy}`);
    shown.data.limits.forEach((limit, i) => {
      const [used, remaining, reset] = shown.cards[i];
      // Units may have become free since the event.
      assert.ok(used <= limit.used, `${policy}: ${used} of ${JSON.stringify(limit)}`);
      if (policy === "api") assert.equal(used, limit.used, "an hour has not passed");
      assert.equal(remaining, limit.capacity - used, policy);
      assert.ok(reset <= limit.reset_after_ms, `${policy}: ${reset} of ${limit.reset_after_ms}`);
    });
  }
  // The figures change without an event.
  const before = await value(page, "reset", "#key-limits");
  await page.waitForFunction((before) => Number(document.querySelector('#key-limits [data-figure="reset"]').dataset.value) < before, before);
  await inspectKey(page, "api", "several", "parts");
  assert.match(await page.locator("#key-h").innerText(), /several · parts/);
  await check("api", ["several", "parts"]);
  await page.waitForFunction(() => document.querySelector('#key-limits [data-figure="used"]').dataset.value === "1");
  assert.match(page.url(), /#\/key\?policy=api&key=several&key=parts&list=true$/, "the address names the key");

  // Trying a limit shows the decisions of the service for each algorithm, and changes no figure.
  const decisions = async () => {
    const { body } = await request("GET", "/v1/overview?seconds=600");
    return body.history.policies.flatMap(({ name, ...outcomes }) => Object.values(outcomes).flat()).reduce((a, b) => a + b, 0);
  };
  await page.waitForFunction(() => window.received.tick?.last.decisions === 0);
  const decided = await decisions();
  await page.goto(`${URL_}/#/try`);
  await page.locator("#try-limit").fill("10/1h");
  await page.locator("#try-limit").press("Tab");
  await page.locator('[data-fire="50"]').click();
  await page.waitForFunction(() => [...document.querySelectorAll(".lane")].every((lane) => Number(lane.querySelector('[data-figure="denied"]').dataset.value) === 40));
  for (const lane of await page.locator(".lane").all()) {
    assert.equal(await lane.locator('[data-figure="admitted"]').getAttribute("data-value"), "10", await lane.getAttribute("data-algorithm"));
  }
  const { now_ms: triedAt } = await page.evaluate(() => window.received.tick);
  await page.waitForFunction((at) => window.received.tick.now_ms > at + 2000, triedAt);
  assert.equal(await decisions(), decided, "the charts do not contain them");
  const boxes = page.locator(".algorithms input[type=checkbox]");
  for (const box of await boxes.all()) await box.uncheck();
  assert.equal(await page.locator("#try-status").innerText(), "Select at least one algorithm to send requests.");
  assert.equal(await page.locator(".fire button:enabled").count(), 0);
  assert.equal(await page.locator("#lanes").isVisible(), false, "there is nothing to compare");
  await boxes.first().check();
  assert.equal(await page.locator("#try-status").innerText(), "");
  await page.locator("#try-limit").fill("1000/1h");
  await page.locator("#try-limit").press("Tab");
  assert.equal(await page.locator("#try-boundary").isEnabled(), false);
  assert.match(await page.locator("#try-status").innerText(), /window boundary needs a limit of at most 200/);
  await page.locator("#try-limit").fill("nonsense");
  await page.locator("#try-limit").press("Tab");
  assert.match(await page.locator("#try-problem").innerText(), /is not a valid limit/);
  assert.equal(await figure(page, "admitted").count(), 0);
  assertNoComplaints(page);
});
