// A real server in a folder of its own, on a free port, and a browser that is signed in to it.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const binary = process.env.CADRAN_BINARY;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Starts a server over these job files; resolves when it says that it is ready. */
export async function startServer(jobs) {
  const dir = mkdtempSync(join(tmpdir(), "cadran-page-"));
  const folder = join(dir, "jobs");
  mkdirSync(folder);
  for (const [name, text] of Object.entries(jobs)) writeFileSync(join(folder, name), text);
  const data = join(dir, "data");
  const start = (port) =>
    new Promise((resolve, reject) => {
      const child = spawn(binary, ["serve", "--data", data, "--jobs", folder, "--listen", `127.0.0.1:${port}`], { stdio: ["ignore", "pipe", "inherit"], env: { ...process.env, CADRAN_LOG: "warn" } });
      let said = "";
      child.stdout.on("data", (text) => {
        said += text;
        const found = /API on (http:\/\/[0-9.:]+)/.exec(said);
        if (found !== null) resolve({ child, url: found[1] });
      });
      child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
    });
  let running = await start(0);
  const end = () =>
    new Promise((resolve) => {
      if (running.child.exitCode !== null || running.child.signalCode !== null) return resolve();
      running.child.removeAllListeners("exit");
      running.child.on("exit", resolve);
      running.child.kill("SIGKILL");
    });
  return {
    url: running.url,
    folder,
    token: () => readFileSync(join(data, "token"), "utf8").trim(),
    cadran: (...words) => execFileSync(binary, [...words, "--data", data], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }),
    write: (name, text) => writeFileSync(join(folder, name), text),
    async restart() {
      await end();
      running = await start(new URL(running.url).port);
    },
    kill: end,
    async stop() {
      await end();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export function startBrowser() {
  return chromium.launch({ executablePath: process.env.CADRAN_CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
}

/** For a look at changes before the server is built with them: `CADRAN_PAGE_FILES=dist` names where script and style are. */
async function ownFiles(context) {
  const dir = process.env.CADRAN_PAGE_FILES;
  if (dir === undefined) return;
  for (const [kind, type] of [["js", "text/javascript"], ["css", "text/css"]]) {
    await context.route(new RegExp(`/assets/app-[0-9a-f]+\\.${kind}$`), (route) => route.fulfill({ path: join(dir, `app.${kind}`), contentType: `${type}; charset=utf-8` }));
  }
}

/** A tab that keeps what must not happen: console errors, refused scripts, requests to elsewhere. */
export async function openTab(browser, server, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, timezoneId: "Europe/Berlin", permissions: ["clipboard-read", "clipboard-write"], ...options });
  await ownFiles(context);
  const page = await context.newPage();
  const wrong = [];
  const requests = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") wrong.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
  page.on("request", (request) => {
    requests.push(request.url());
    if (!request.url().startsWith(server.url)) wrong.push(`elsewhere: ${request.url()}`);
  });
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  });
  return { context, page, wrong, requests };
}

export function link(server, ...words) {
  return server.cadran("open", "--print", ...words).trim().split("\n")[0];
}

export async function signedIn(browser, server, options = {}, words = [], address = link(server, ...words)) {
  const tab = await openTab(browser, server, options);
  await tab.page.goto(address);
  await tab.page.getByRole("navigation", { name: "Screens" }).waitFor();
  return tab;
}

/** What axe finds wrong. It is evaluated by the debugger, so the page's own rules stay in force. */
export async function audit(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }));
  return found.violations.map((rule) => `${rule.id}: ${rule.nodes.map((node) => `${node.target.join(" ")} ${node.any.map((one) => one.message).join(" ")}`).slice(0, 3).join(" | ")}`);
}
