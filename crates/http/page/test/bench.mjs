// The page beside Dagu's in the same Chromium: `node test/bench.mjs`, with CADRAN_DAGU naming the folder of its npm package.
// Each number is the middle of three loads from an empty cache.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { link, startBrowser, startServer } from "./server.mjs";

const ROUNDS = 3;
const JOBS = 1000;
const dagu = join(process.env.CADRAN_DAGU, "node_modules/@dagu-org/dagu-linux-x64/bin/dagu");
/** 100 bytes a line: a log of 9 MB, which both keep whole, and of 100 MB, of which Cadran keeps 10 MiB. */
const LINE = "line %.0f of a log with so much text that every one of its lines has about a hundred bytes";
const LOGS = { "9 MB": 90_000, "100 MB": 1_000_000 };

const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

const middle = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** Loads an address and says when something was painted, when `done` was there, what came over the wire and what the heap holds. */
async function load(context, url, done) {
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send("Network.enable");
  await session.send("Network.setCacheDisabled", { cacheDisabled: true });
  await session.send("Performance.enable");
  let bytes = 0;
  session.on("Network.loadingFinished", ({ encodedDataLength }) => (bytes += encodedDataLength));
  const begun = performance.now();
  await page.goto(url, { waitUntil: "commit" });
  await done(page);
  const shown = performance.now() - begun;
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  const elements = await page.evaluate(() => document.querySelectorAll("*").length);
  await page.close();
  return { paint, shown, bytes, heap: usedSize, elements };
}

async function measure(context, url, done) {
  const rounds = [];
  for (let no = 0; no < ROUNDS; no += 1) rounds.push(await load(context, url, done));
  return Object.fromEntries(Object.keys(rounds[0]).map((name) => [name, middle(rounds.map((round) => round[name]))]));
}

const name = (no) => `job-${String(no).padStart(4, "0")}`;
const script = (lines) => `seq -f '${LINE}' 1 ${lines}`;
const results = {};

async function ofCadran(browser) {
  const jobs = Object.fromEntries(Array.from({ length: JOBS }, (_, no) => [`${name(no)}.yaml`, `schedule: "0 3 * * *"\nsteps:\n  - run: echo ${no}\n`]));
  for (const [size, lines] of Object.entries(LOGS)) jobs[`log-${lines}.yaml`] = `description: ${size}\nsteps:\n  - name: print\n    run: ${JSON.stringify(script(lines))}\n`;
  const server = await startServer(jobs);
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  try {
    const page = await context.newPage();
    await page.goto(link(server));
    await page.getByRole("navigation", { name: "Screens" }).waitFor();
    await page.close();
    results["first page"] = [await measure(context, `${server.url}/`, (at) => at.getByText("Active and waiting").waitFor())];
    results["list of 1,000 jobs"] = [await measure(context, `${server.url}/jobs`, (at) => at.getByText(name(0)).locator("visible=true").first().waitFor())];
    for (const [size, lines] of Object.entries(LOGS)) {
      server.cadran("trigger", `log-${lines}`, "--wait");
      const run = JSON.parse(server.cadran("history", `log-${lines}`, "--json")).history[0].id;
      results[`log of ${size}`] = [await measure(context, `${server.url}/runs/${run}/log/print`, (at) => at.getByText("line 1 of a log").first().waitFor())];
    }
  } finally {
    await context.close();
    await server.stop();
  }
}

async function ofDagu(browser) {
  const home = mkdtempSync(join(tmpdir(), "cadran-page-dagu-"));
  const dags = join(home, "dags");
  mkdirSync(dags);
  for (let no = 0; no < JOBS; no += 1) writeFileSync(join(dags, `${name(no)}.yaml`), `schedule: "0 3 * * *"\nsteps:\n  - name: a\n    command: echo ${no}\n`);
  for (const lines of Object.values(LOGS)) writeFileSync(join(dags, `log-${lines}.yaml`), `steps:\n  - name: print\n    command: ${JSON.stringify(script(lines))}\n    shell: sh\n`);
  const port = await freePort();
  const env = { ...process.env, DAGU_HOME: home, DAGU_DAGS_DIR: dags, DAGU_AUTH_MODE: "none" };
  for (const lines of Object.values(LOGS)) execFileSync(dagu, ["start", join(dags, `log-${lines}.yaml`)], { env, stdio: "ignore" });
  const server = spawn(dagu, ["server", "--host", "127.0.0.1", "--port", String(port), "--dags", dags], { env, stdio: "ignore" });
  const url = `http://127.0.0.1:${port}`;
  try {
    for (;;) {
      const isThere = await fetch(url).then(() => true, () => false);
      if (isThere) break;
      if (server.exitCode !== null) throw new Error(`dagu ended with ${server.exitCode}`);
    }
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    context.setDefaultTimeout(120_000);
    results["first page"].push(await measure(context, `${url}/`, (at) => at.getByText("Dagu").first().waitFor({ state: "attached" })));
    results["list of 1,000 jobs"].push(await measure(context, `${url}/dags`, (at) => at.getByText(name(0)).locator("visible=true").first().waitFor()));
    for (const [size, lines] of Object.entries(LOGS)) {
      const done = (at) => at.getByText("of a log with so much text").locator("visible=true").first().waitFor();
      results[`log of ${size}`].push(await measure(context, `${url}/dags/log-${lines}/log?step=print`, done).catch((error) => ({ failed: String(error).split("\n")[0] })));
    }
    await context.close();
  } finally {
    server.kill("SIGKILL");
    if (process.env.CADRAN_KEEP === undefined) rmSync(home, { recursive: true, force: true });
    else console.error(`kept ${home}: ${readdirSync(home)}`);
  }
}

const browser = await startBrowser();
try {
  await ofCadran(browser);
  await ofDagu(browser);
} finally {
  await browser.close();
}
const text = (one) => (one === undefined || one.failed !== undefined ? (one?.failed ?? "–") : `${Math.round(one.paint)} ms | ${Math.round(one.shown)} ms | ${Math.round(one.bytes / 1000)} kB | ${(one.heap / 1e6).toFixed(1)} MB | ${one.elements}`);
console.log("| work | page | first paint | shown | over the wire | heap | elements |\n|---|---|---|---|---|---|---|");
for (const [work, [cadran, other]] of Object.entries(results)) {
  console.log(`| ${work} | Cadran | ${text(cadran)} |`);
  console.log(`| | Dagu | ${text(other)} |`);
}
