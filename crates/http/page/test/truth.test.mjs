// What the page shows is what the server says, and nothing in between is lost, doubled or taken for markup.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { link, openTab, signedIn, startBrowser, startServer } from "./server.mjs";

const MARKUP = `<img src=x onerror=alert(1)><script>alert(2)</script>`;
const JOBS = {
  "often.yaml": `description: ${JSON.stringify(MARKUP)}\nlabels: {team: ${JSON.stringify(MARKUP)}}\nschedule: "every 25ms"\noverlap: allow\nsteps:\n  - run: "true"\n`,
  "named.yaml": `description: ${JSON.stringify(`\u001b[31m${MARKUP}`)}\nparams: {WHAT: ${JSON.stringify(MARKUP)}}\nsteps:\n  - name: ${JSON.stringify("a step")}\n    run: echo "$WHAT"; printf '\\033]0;title\\007\\033[2J%s\\n' "$WHAT"\n    output: SAID\n`,
};

let server;
let browser;

before(async () => {
  server = await startServer(JOBS);
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

const api = (page, path) => page.evaluate(async (at) => (await fetch(`/api/v1${at}`)).json(), path);

/** All runs of the job that are on record, once none of them is on any more. */
async function endedRuns(page) {
  for (;;) {
    const told = new Map();
    let before;
    do {
      const answer = await api(page, `/runs?job=often&limit=1000${before === undefined ? "" : `&before=${before}`}`);
      for (const run of answer.runs) told.set(run.id, run);
      before = answer.next ?? undefined;
    } while (before !== undefined);
    if ([...told.values()].every((run) => run.ended)) return told;
  }
}

/** The rows of runs on the screen. */
const shownRuns = (page) =>
  page.locator("tbody tr").evaluateAll((rows) => rows.map((row) => ({ id: row.querySelector(".row-link").textContent, status: row.querySelector("[data-name=Status] .status").lastChild.textContent.trim(), due: row.querySelector("time").dateTime, why: row.querySelector("[data-name=Why]").textContent })));

test("a thousand runs are shown as the server tells them", async () => {
  const tab = await signedIn(browser, server);
  // The named moment: a thousand runs are on record; then the job rests, and its runs do not change any more.
  while ((await api(tab.page, "/runs?job=often&limit=1000")).runs.length < 1000);
  server.cadran("pause", "often");
  const told = await endedRuns(tab.page);
  await tab.page.goto(`${server.url}/runs?job=often`);
  await tab.page.locator("tbody tr").first().waitFor();
  for (let shown = 0; ; ) {
    const rows = await shownRuns(tab.page);
    for (const row of rows) {
      const run = told.get(row.id);
      assert.ok(run !== undefined, `${row.id} is on record, and was not shown before`);
      assert.deepEqual(row, { id: run.id, status: run.status, due: new Date(run.due_ms).toISOString(), why: run.explanation });
      told.delete(row.id);
    }
    shown += rows.length;
    if (shown >= 1000) break;
    await tab.page.getByRole("button", { name: "Older" }).click();
    await tab.page.waitForFunction((id) => (document.querySelector(".row-link")?.textContent ?? id) !== id, rows[0].id);
  }
  assert.deepEqual(tab.wrong, []);
  await tab.context.close();
});

test("each due of the job is in the strip once", async () => {
  const tab = await signedIn(browser, server);
  await tab.page.goto(`${server.url}/jobs/often`);
  await tab.page.locator(".due").first().waitFor();
  const labels = await tab.page.locator("a.due").evaluateAll((dues) => dues.map((due) => due.getAttribute("href")));
  assert.ok(labels.length >= 100);
  assert.equal(new Set(labels).size, labels.length);
  assert.deepEqual(tab.wrong, []);
  await tab.context.close();
});

const ZONES = ["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu", "Africa/Casablanca", "Pacific/Apia", "America/St_Johns", "Asia/Tokyo"];
const EXPRESSIONS = ["30 2 * * *", "*/20 1-3 * * *", "0 0 L * *", "15 2 * * 7", "0 3 29 2 *", "0 30 2 * * *", "5 1 1W * *", "0 9 * * MON#1", "@hourly", "every 90m"];
const STARTS = ["2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z"];

test("the preview is what `cadran next` says, in 200 zones and expressions across gaps and folds", async () => {
  const tab = await signedIn(browser, server);
  const rows = ZONES.flatMap((timezone) => EXPRESSIONS.flatMap((expr) => STARTS.map((from) => ({ expr, timezone, from, count: 5 }))));
  assert.equal(rows.length, 200);
  const said = execFileSync(process.env.CADRAN_BINARY, ["next", "--stdin"], { input: rows.map((row) => JSON.stringify(row)).join("\n"), encoding: "utf8" }).trim().split("\n").map((line) => JSON.parse(line));
  const answers = await tab.page.evaluate(async (all) => {
    const found = [];
    for (const { expr, timezone, from, count } of all) {
      const answer = await fetch(`/api/v1/schedules/preview?${new URLSearchParams({ text: expr, timezone, from, limit: count })}`);
      found.push((await answer.json()).dues?.map((due) => due.due));
    }
    return found;
  }, rows);
  rows.forEach((row, no) => assert.deepEqual(answers[no], said[no].times, JSON.stringify(row)));
  // And on the screen, for the night of a gap in each zone.
  for (let no = 0; no < rows.length; no += 20) {
    const { expr, timezone } = rows[no];
    const from = "2026-03-28T00:00";
    await tab.page.goto(`${server.url}/try?${new URLSearchParams({ schedule: expr, timezone, from })}`);
    await tab.page.locator("tbody time").first().waitFor();
    const shown = await tab.page.locator("tbody tr td.name time").evaluateAll((times) => times.map((time) => time.dateTime));
    const [{ times }] = execFileSync(process.env.CADRAN_BINARY, ["next", "--stdin"], { input: JSON.stringify({ expr, timezone, from: "2026-03-28T00:00:00", count: shown.length }), encoding: "utf8" }).trim().split("\n").map((line) => JSON.parse(line));
    assert.deepEqual(shown, times, `${expr} ${timezone}`);
  }
  assert.deepEqual(tab.wrong, []);
  await tab.context.close();
});

test("markup and escape codes in texts, labels, parameters, outputs and logs change no element", async () => {
  const tab = await signedIn(browser, server);
  server.cadran("trigger", "named", "--wait", "-p", `WHAT=${MARKUP}\u001b[31m`);
  const run = JSON.parse(server.cadran("history", "named", "--json")).history[0].id;
  let isHurt = false;
  tab.page.on("dialog", () => (isHurt = true));
  for (const path of ["/jobs", "/jobs/often", "/jobs/named", `/runs/${run}`, "/runs", "/why", `/jobs?label=${encodeURIComponent(MARKUP)}`, `/jobs?text=${encodeURIComponent(MARKUP)}`, `/try?schedule=${encodeURIComponent(MARKUP)}&timezone=${encodeURIComponent(MARKUP)}`, `/jobs/${encodeURIComponent(MARKUP)}`]) {
    await tab.page.goto(server.url + path);
    await tab.page.waitForFunction(() => document.querySelector("main .skeleton") === null && (document.querySelector("main")?.children.length ?? 0) > 0);
    assert.equal(await tab.page.locator("main img, main script, main iframe").count(), 0, path);
  }
  await tab.page.goto(`${server.url}/runs/${run}`);
  await tab.page.locator(".log-line", { hasText: MARKUP }).first().waitFor();
  assert.equal(isHurt, false);
  assert.deepEqual(tab.wrong.filter((line) => !/40[04]/.test(line)), []);
  await tab.context.close();
});

test("a stream that is killed goes on where it was: no change is missed or told twice", async () => {
  const tab = await openTab(browser, server);
  await tab.page.addInitScript(() => {
    const told = (window.told = []);
    const Real = window.EventSource;
    window.EventSource = class extends Real {
      constructor(url) {
        super(url);
        (window.sources ??= []).push(this);
        this.addEventListener("job", (event) => told.push(event.lastEventId));
      }
    };
  });
  await tab.page.goto(link(server));
  await tab.page.locator(".connection.on").waitFor();
  const before = await tab.page.evaluate(() => window.told.length);
  server.cadran("pause", "named");
  await tab.page.waitForFunction((count) => window.told.length > count, before);
  // The tab goes to sleep, things happen, and it wakes up again.
  const setVisible = (state) => tab.page.evaluate((word) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => word });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);
  await setVisible("hidden");
  assert.equal(await tab.page.evaluate(() => window.sources.filter((source) => source.readyState !== 2).length), 0, "a hidden tab has no stream");
  const missed = await tab.page.evaluate(() => window.told.length);
  for (const word of ["resume", "pause", "resume"]) server.cadran(word, "named");
  await setVisible("visible");
  await tab.page.waitForFunction((count) => window.told.length >= count, missed + 3);
  const ids = await tab.page.evaluate(() => window.told);
  assert.equal(new Set(ids).size, ids.length, "none is told twice");
  assert.equal(ids.length, missed + 3, "none is missed");
  // After another start nothing can be gone on with: everything is read anew.
  await tab.page.goto(`${server.url}/jobs`);
  await tab.page.locator("tr", { hasText: "named" }).locator(".s-active").waitFor();
  await server.kill();
  await tab.page.getByText("connection lost").waitFor();
  await server.restart();
  server.cadran("pause", "named");
  await tab.page.locator("tr", { hasText: "named" }).locator(".s-paused").waitFor();
  server.cadran("resume", "named");
  await tab.context.close();
});

test("of eight tabs only the one that is seen holds a stream", async () => {
  const first = await signedIn(browser, server);
  const tabs = [first.page];
  const hide = (page) => page.evaluate(() => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "hidden" });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  for (let no = 1; no < 8; no += 1) {
    await hide(tabs.at(-1));
    const page = await first.context.newPage();
    await page.goto(`${server.url}/jobs`);
    await page.locator(".connection.on").waitFor();
    tabs.push(page);
  }
  // Browsers have six connections to a server: the eighth tab still gets its answers.
  await tabs[7].getByRole("link", { name: "named" }).waitFor();
  const states = await Promise.all(tabs.map((page) => page.evaluate(() => document.querySelector(".connection").className)));
  assert.deepEqual(states.map((state) => state.includes(" on")), [false, false, false, false, false, false, false, true]);
  await first.context.close();
});
