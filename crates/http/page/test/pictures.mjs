// Makes the README's pictures from the example jobs: `CADRAN_BINARY=… CADRAN_CHROMIUM=… node test/pictures.mjs DIR`.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { signedIn, startBrowser, startServer } from "./server.mjs";

const examples = fileURLToPath(new URL("../../../../examples/jobs", import.meta.url));
const jobs = Object.fromEntries(readdirSync(examples).filter((name) => name.endsWith(".yaml")).map((name) => [name, readFileSync(join(examples, name), "utf8")]));
const to = process.argv[2] ?? ".";

const server = await startServer(jobs);
const browser = await startBrowser();
try {
  const size = { viewport: { width: 1280, height: 760 } };
  const light = await signedIn(browser, server, { ...size, colorScheme: "light" });
  await light.page.goto(`${server.url}/jobs/seconds`);
  // The named moment: forty dues have become runs.
  await light.page.waitForFunction(() => document.querySelectorAll(".due.s-succeeded").length >= 40, null, { timeout: 180_000 });
  await light.page.screenshot({ path: join(to, "page-light.png") });
  const dark = await signedIn(browser, server, { ...size, colorScheme: "dark" });
  server.cadran("trigger", "outputs", "--wait");
  const run = JSON.parse(server.cadran("history", "outputs", "--json")).history[0].id;
  await dark.page.goto(`${server.url}/runs/${run}`);
  await dark.page.locator(".log-line").first().waitFor();
  await dark.page.screenshot({ path: join(to, "page-dark.png") });
} finally {
  await browser.close();
  await server.stop();
}
