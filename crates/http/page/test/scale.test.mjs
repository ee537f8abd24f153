// What the page costs when there is much of everything, as counts and bytes.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { signedIn, startBrowser, startServer } from "./server.mjs";
import { startFlood } from "./flood.mjs";

const JOBS = {
  "hello.yaml": `schedule: "*/5 * * * *"\nsteps:\n  - name: greet\n    run: echo hello\n`,
  "lines.yaml": `steps:\n  - name: many\n    run: seq -f "no %.0f" 1 1000000\n`,
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

/** A job of a fleet that is made up: the server's own lists at this size are measured by its own benchmark. */
const job = (no) => ({ name: `job-${String(no).padStart(6, "0")}`, description: `The ${no}th`, labels: { team: `t${no % 7}` }, state: "active", revision: 1, schedules: [{ action: "start", description: "every minute", text: "* * * * *", timezone: "UTC" }], next_due_ms: Date.now() + no });
const FLEET = 100_000;

test("the first page is eight requests and 70 kB at most, its script 45 kB", async () => {
  const tab = await signedIn(browser, server);
  // Loaded once more from nothing, signed in.
  const session = await tab.context.newCDPSession(tab.page);
  await session.send("Network.enable");
  await session.send("Network.setCacheDisabled", { cacheDisabled: true });
  const bytes = new Map();
  const kinds = new Map();
  session.on("Network.responseReceived", ({ requestId, response, type }) => kinds.set(requestId, { url: response.url, type }));
  session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => bytes.set(requestId, encodedDataLength));
  await tab.page.goto(server.url, { waitUntil: "load" });
  await tab.page.getByText("Active and waiting").waitFor();
  const own = [...kinds].filter(([, { url }]) => !url.includes("/api/"));
  const all = own.reduce((sum, [id]) => sum + (bytes.get(id) ?? 0), 0);
  const script = own.filter(([, { type }]) => type === "Script").reduce((sum, [id]) => sum + bytes.get(id), 0);
  assert.ok(own.length <= 8, `${own.length} files`);
  assert.ok(all > 10_000 && all <= 70_000, `${all} bytes`);
  assert.ok(script > 10_000 && script <= 45_000, `the script has ${script} bytes`);
  await tab.context.close();
});

test("100,000 jobs are at most 1,500 elements, and the last is three requests away", async () => {
  const tab = await signedIn(browser, server);
  const windows = [];
  await tab.page.route("**/api/v1/jobs?*", (route) => {
    const fields = new URL(route.request().url()).searchParams;
    const [offset, limit] = [Number(fields.get("offset")), Number(fields.get("limit"))];
    windows.push(offset);
    const jobs = Array.from({ length: Math.min(limit, FLEET - offset) }, (_, no) => job(offset + no));
    return route.fulfill({ json: { jobs, total: FLEET, offset, as_of: "", as_of_ms: Date.now() } });
  });
  await tab.page.goto(`${server.url}/jobs`);
  await tab.page.getByRole("link", { name: "job-000000" }).waitFor();
  const elements = () => tab.page.evaluate(() => document.querySelectorAll("*").length);
  assert.ok((await elements()) <= 1500, `${await elements()} elements`);
  await tab.page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
  await tab.page.getByRole("link", { name: `job-0${FLEET - 1}` }).waitFor();
  assert.ok((await elements()) <= 1500, `${await elements()} elements at the end`);
  assert.ok(new Set(windows).size <= 3, `${windows}`);
  assert.equal(await tab.page.locator("table").getAttribute("aria-rowcount"), String(FLEET + 1));
  assert.deepEqual(tab.wrong, []);
  await tab.context.close();
});

test("the middle of a log of a million lines is 400 elements and 1 MB", async () => {
  server.cadran("trigger", "lines", "--wait");
  const run = JSON.parse(server.cadran("history", "lines", "--json")).history[0].id;
  const tab = await signedIn(browser, server);
  const session = await tab.context.newCDPSession(tab.page);
  await session.send("Network.enable");
  let bytes = 0;
  session.on("Network.dataReceived", ({ dataLength }) => (bytes += dataLength));
  await tab.page.goto(`${server.url}/runs/${run}/log/many#L500000`);
  await tab.page.getByText("no 500000", { exact: true }).waitFor();
  const elements = await tab.page.evaluate(() => document.querySelectorAll(".log *").length);
  assert.ok(elements <= 400, `${elements} elements`);
  assert.ok(bytes <= 1_000_000, `${bytes} bytes`);
  // By keys to the end, to a line, and with wrapped lines too.
  await tab.page.locator(".log-view").focus();
  await tab.page.keyboard.press("Shift+G");
  await tab.page.getByText("no 1000000", { exact: true }).waitFor();
  await tab.page.keyboard.press(":");
  await tab.page.keyboard.type("250000");
  await tab.page.keyboard.press("Enter");
  await tab.page.getByText("no 250000", { exact: true }).waitFor();
  assert.equal(new URL(tab.page.url()).hash, "#L250000");
  assert.deepEqual(tab.wrong, []);
  await tab.context.close();
});

test("a thousand changes a second are at most five drawings a second, and the heap stays flat", async () => {
  const flood = await startFlood(server.url, 1000);
  try {
    await underFlood(flood);
  } finally {
    await flood.stop();
  }
});

async function underFlood(flood) {
  const tab = await signedIn(browser, { ...server, url: flood.url }, {}, [], flood.link(server));
  await tab.page.goto(`${flood.url}/`);
  await tab.page.getByText("Active and waiting").waitFor();
  const session = await tab.context.newCDPSession(tab.page);
  const heap = async () => {
    await session.send("HeapProfiler.collectGarbage");
    return (await session.send("Runtime.getHeapUsage")).usedSize;
  };
  await tab.page.evaluate(() => {
    const frames = new Set();
    let frame = 0;
    const count = () => {
      frame += 1;
      requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
    new MutationObserver(() => frames.add(frame)).observe(document.querySelector("main"), { subtree: true, childList: true, characterData: true, attributes: true });
    window.drawings = () => frames.size;
  });
  await flood.sent(2000);
  const [heapBefore, drawnBefore, begun, sentBefore] = [await heap(), await tab.page.evaluate(() => window.drawings()), Date.now(), flood.count()];
  await flood.sent(sentBefore + 12_000);
  const seconds = (Date.now() - begun) / 1000;
  const drawn = (await tab.page.evaluate(() => window.drawings())) - drawnBefore;
  const grown = (await heap()) - heapBefore;
  assert.ok(drawn / seconds <= 5, `${drawn} drawings in ${seconds} s`);
  assert.ok(grown <= 5_000_000, `the heap grew by ${grown} bytes`);
  assert.ok(flood.requests() / seconds <= 12, `${flood.requests()} requests in ${seconds} s`);
  assert.deepEqual(tab.wrong, []);
  await tab.context.close();
}
