// Every screen in each of its states: nothing there, failed, denied, slow, out of date; each clean for axe.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { audit, signedIn, startBrowser, startServer } from "./server.mjs";

const SCREENS = ["/", "/jobs", "/jobs/hello", "/runs", "/runs/0000000000000", "/runs/0000000000000/log/a", "/forecast", "/why", "/waits", "/executors", "/servers", "/problems", "/session"];

let server;
let browser;

before(async () => {
  server = await startServer({});
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Everything a screen asks for, but who is signed in and the stream of events. */
const ASKED = /\/(?:api\/v1\/(?!session$|events)|health)/;

async function each(tab, check) {
  for (const path of SCREENS) {
    await tab.page.goto(server.url + path);
    await tab.page.locator("main").waitFor();
    await check(path);
    assert.deepEqual(await audit(tab.page), [], path);
  }
  // What the browser itself writes of an answer that is no success, it may.
  assert.deepEqual(tab.wrong.filter((line) => !line.includes("Failed to load resource")), []);
}

for (const scheme of ["light", "dark"]) {
  test(`nothing there: every screen says so and what to do, ${scheme}`, async () => {
    const tab = await signedIn(browser, server, { colorScheme: scheme });
    await each(tab, async (path) => {
      await tab.page.waitForFunction(() => document.querySelector("main .skeleton") === null && document.querySelector("main")?.children.length > 0);
      if (["/jobs", "/runs", "/forecast", "/why", "/waits", "/executors", "/problems"].includes(path)) await tab.page.locator("main .empty").first().waitFor();
    });
    await tab.context.close();
  });

  test(`failed: every screen shows the server's sentence and a way to try again, ${scheme}`, async () => {
    const tab = await signedIn(browser, server, { colorScheme: scheme });
    await tab.page.route(ASKED, (route) => route.fulfill({ status: 500, json: { error: { code: "bug", message: "the tape is torn", help: "glue it" } } }));
    await each(tab, async () => {
      await tab.page.getByText("The tape is torn.").first().waitFor();
      await tab.page.getByText("Glue it.").first().waitFor();
    });
    await tab.page.unroute(ASKED);
    await tab.page.goto(`${server.url}/runs`);
    await tab.page.getByText("Nothing has run yet.").waitFor();
    await tab.context.close();
  });
}

test("denied: a screen says what may not be seen", async () => {
  const tab = await signedIn(browser, server);
  await tab.page.route(ASKED, (route) => route.fulfill({ status: 403, json: { error: { code: "read_only", message: "this session may not see that" } } }));
  await each(tab, () => tab.page.locator(".note.warn, .note.bad").first().waitFor());
  await tab.context.close();
});

test("a session that has ended leads to signing in, and back to the same address", async () => {
  const tab = await signedIn(browser, server);
  await tab.page.goto(`${server.url}/why?job=hello`);
  await tab.page.getByText("No due of hello has come yet.").waitFor();
  await tab.context.clearCookies();
  await tab.page.reload();
  await tab.page.getByLabel("Or paste the server's token").waitFor();
  assert.deepEqual(await audit(tab.page), []);
  await tab.page.getByLabel("Or paste the server's token").fill("x");
  await tab.page.getByRole("button", { name: "Sign in" }).click();
  await tab.page.getByRole("alert").waitFor();
  await tab.page.getByLabel("Or paste the server's token").fill(server.token());
  await tab.page.getByRole("button", { name: "Sign in" }).click();
  await tab.page.getByText("No due of hello has come yet.").waitFor();
  await tab.context.close();
});

test("slow: nothing flickers, then the wait is shown, and old data stays while it is read anew", async () => {
  const tab = await signedIn(browser, server);
  let release = () => {};
  await tab.page.route(ASKED, async (route) => {
    await new Promise((resolve) => (release = resolve));
    await route.continue().catch(() => {});
  });
  for (const path of ["/runs", "/forecast", "/problems"]) {
    await tab.page.goto(server.url + path);
    await tab.page.locator("main .skeleton i").first().waitFor();
    assert.deepEqual(await audit(tab.page), [], path);
    release();
    await tab.page.locator("main .empty").waitFor();
  }
  await tab.page.unroute(ASKED);
  await tab.page.goto(`${server.url}/runs`);
  await tab.page.getByText("Nothing has run yet.").waitFor();
  await server.kill();
  await tab.page.locator(".stale").waitFor();
  await tab.page.getByText("Nothing has run yet.").waitFor();
  assert.deepEqual(await audit(tab.page), []);
  await server.restart();
  await tab.page.locator(".stale").waitFor({ state: "detached" });
  await tab.context.close();
});
