import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { audit, link, openTab, signedIn, startBrowser, startServer } from "./server.mjs";

const MARKUP = `<img src=x onerror=alert(1)><script>alert(2)</script>`;

const JOBS = {
  "hello.yaml": `description: Says hello\nlabels: {team: core}\nschedule: "*/5 * * * *"\nsteps:\n  - name: greet\n    run: echo hello\n`,
  "params.yaml": `params: {WHO: world}\nsteps:\n  - name: say\n    run: echo "hello $WHO"\n`,
  "failing.yaml": `steps:\n  - name: first\n    run: echo before\n  - name: breaks\n    depends: first\n    run: echo going down; exit 3\n`,
  "slow.yaml": `steps:\n  - name: wait\n    run: echo started; sleep 600\n`,
  "lines.yaml": `steps:\n  - name: many\n    run: seq -f "line %.0f of many" 1 300000\n`,
  "colours.yaml": `steps:\n  - name: paint\n    run: |\n      printf '\\033[31mred\\033[0m plain\\n%s\\n\\033]8;;http://evil.example\\033\\\\link\\n' '${MARKUP}'\n`,
  "broken.yaml": `schedule: "* * * * *"\nsteps:\n  - name: a\n    rum: echo\n`,
};

const SCREENS = ["/", "/jobs", "/jobs?state=active&sort=next_due", "/jobs/hello", "/runs", "/runs?late_over=1h", "/forecast", "/forecast?span=week", "/why", "/why?within=hour&outcome=failed", "/waits", "/try", "/try?schedule=30+2+*+*+*&timezone=Europe/Paris", "/executors", "/servers", "/problems", "/session"];

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

/** Triggers a job and waits for its end. */
function play(job, ...words) {
  try {
    server.cadran("trigger", job, "--wait", ...words);
  } catch {
    // A run that fails makes the command fail.
  }
  const runs = JSON.parse(server.cadran("history", job, "--json"));
  return runs.history[0].id;
}

async function settled(page) {
  await page.locator("main h1").first().waitFor();
  await page.waitForFunction(() => document.querySelector("main .skeleton") === null);
}

test("a link signs one browser in, and works once", async () => {
  const url = link(server);
  const first = await openTab(browser, server);
  await first.page.goto(url);
  await first.page.getByRole("heading", { name: "Now" }).waitFor();
  assert.equal(new URL(first.page.url()).hash, "", "the code leaves the address");
  const cookies = await first.context.cookies();
  assert.deepEqual(cookies.map(({ httpOnly, sameSite }) => ({ httpOnly, sameSite })), [{ httpOnly: true, sameSite: "Strict" }]);
  const second = await openTab(browser, server);
  await second.page.goto(url);
  await second.page.getByText("This link was used already").waitFor();
  // A refused request is logged by the browser itself.
  assert.deepEqual(second.wrong.filter((line) => !line.includes("401")), []);
  assert.deepEqual(first.wrong, []);
  await Promise.all([first.context.close(), second.context.close()]);
});

test("the first page is small", async () => {
  const tab = await signedIn(browser, server);
  await settled(tab.page);
  const before = tab.requests.filter((url) => !url.includes("/api/")).length;
  assert.ok(before <= 8, `${before} requests`);
  await tab.context.close();
});

for (const [name, options] of [
  ["light", { colorScheme: "light" }],
  ["dark", { colorScheme: "dark" }],
  ["forced colours", { forcedColors: "active" }],
  ["narrow", { viewport: { width: 320, height: 700 } }],
]) {
  test(`every screen is accessible and quiet: ${name}`, async () => {
    const failed = play("failing");
    const tab = await signedIn(browser, server, options);
    for (const path of [...SCREENS, "/jobs/failing", `/runs/${failed}`, `/runs/${failed}/log/breaks`, "/jobs/nothing-here"]) {
      await tab.page.goto(server.url + path);
      await tab.page.locator("main").waitFor();
      await tab.page.waitForFunction(() => document.querySelector("main .skeleton") === null && document.querySelector("main")?.children.length > 0);
      assert.deepEqual(await audit(tab.page), [], path);
      const [scrolled, width] = await tab.page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      assert.ok(scrolled <= width, `${path} is ${scrolled} px wide in ${width}`);
    }
    assert.deepEqual(tab.wrong.filter((line) => !line.includes("404")), []);
    await tab.context.close();
  });
}

test("a job is run with a parameter and its log is followed to the end", async () => {
  const tab = await signedIn(browser, server);
  await tab.page.goto(`${server.url}/jobs/params`);
  await tab.page.getByRole("button", { name: "Run now" }).first().click();
  await tab.page.getByLabel("WHO").fill("reader");
  await tab.page.getByRole("dialog").getByRole("button", { name: "Run now" }).click();
  await tab.page.waitForURL(/\/runs\//);
  await tab.page.getByText("hello reader").waitFor();
  await tab.page.locator("main .head .s-succeeded").waitFor();
  await tab.page.getByText("WHO=reader").waitFor();
  assert.deepEqual(tab.wrong, []);
  await tab.context.close();
});

test("a run is stopped and a failed one is retried", async () => {
  const failed = play("failing");
  const tab = await signedIn(browser, server);
  await tab.page.goto(`${server.url}/jobs/slow`);
  await tab.page.getByRole("button", { name: "Run now" }).first().click();
  await tab.page.getByRole("dialog").getByRole("button", { name: "Run now" }).click();
  await tab.page.getByText("started", { exact: true }).waitFor();
  await tab.page.getByRole("button", { name: "Stop" }).click();
  await tab.page.getByRole("dialog").getByRole("button", { name: "Stop" }).click();
  await tab.page.locator("main .head .s-stopped").waitFor();
  await tab.page.goto(`${server.url}/runs/${failed}`);
  await tab.page.getByText("exited with 3").first().waitFor();
  await tab.page.getByRole("button", { name: "Retry" }).click();
  await tab.page.getByRole("dialog").getByRole("button", { name: "Retry" }).click();
  await tab.page.waitForFunction(() => [...document.querySelectorAll("dt")].some((dt) => dt.textContent === "Starts" && dt.nextElementSibling.textContent.startsWith("2")));
  assert.deepEqual(tab.wrong, []);
  await tab.context.close();
});

test("jobs are filtered, paused together and resumed", async () => {
  const tab = await signedIn(browser, server);
  await tab.page.goto(`${server.url}/jobs`);
  await tab.page.getByRole("link", { name: "hello" }).waitFor();
  await tab.page.keyboard.press("/");
  await tab.page.keyboard.type("l");
  await tab.page.waitForURL(/text=l/);
  await tab.page.getByRole("link", { name: "params" }).waitFor({ state: "detached" });
  for (const name of ["hello", "slow"]) await tab.page.getByLabel(`Pick ${name}`).check();
  await tab.page.getByRole("button", { name: "Pause 2" }).click();
  await tab.page.getByRole("dialog").getByRole("button", { name: "Pause 2 jobs" }).click();
  await tab.page.waitForFunction(() => document.querySelectorAll("td .s-paused").length === 2);
  for (const name of ["hello", "slow"]) server.cadran("resume", name);
  // The page hears of it by itself.
  await tab.page.waitForFunction(() => document.querySelectorAll("td .s-paused").length === 0);
  // Everything that a filter finds, after a look at what would change.
  await tab.page.getByLabel("Pick hello").check();
  await tab.page.getByRole("button", { name: /^Pick all \d+ that are like this/ }).click();
  await tab.page.getByRole("button", { name: /^Resume \d/ }).click();
  await tab.page.getByText("not paused: nothing changes for them").waitFor();
  assert.equal(await tab.page.getByRole("dialog").getByRole("button", { name: "Resume 0 jobs" }).isDisabled(), true);
  await tab.page.keyboard.press("Escape");
  await tab.page.goto(`${server.url}/jobs?label=team:core&sort=next_due`);
  await tab.page.getByText("1 job is like this").waitFor();
  await tab.page.goto(`${server.url}/jobs?text=zzz`);
  await tab.page.getByText("No job has “zzz” in its name.").waitFor();
  assert.deepEqual(tab.wrong, []);
  await tab.context.close();
});

test("a session that may only look has no buttons that change", async () => {
  const tab = await signedIn(browser, server, {}, ["--read-only"]);
  await tab.page.goto(`${server.url}/jobs/hello`);
  await tab.page.getByText("Read-only session").waitFor();
  await tab.page.getByRole("heading", { name: "hello" }).waitFor();
  assert.equal(await tab.page.getByRole("button", { name: /Run now|Pause/ }).count(), 0);
  const status = await tab.page.evaluate(async () => (await fetch("/api/v1/jobs/hello/pause", { method: "POST" })).status);
  assert.equal(status, 403);
  await tab.context.close();
});

test("a long log shows any line with few elements, and is searched on the server", async () => {
  const run = play("lines");
  const tab = await signedIn(browser, server);
  await tab.page.goto(`${server.url}/runs/${run}/log/many#L150000`);
  await tab.page.getByText("line 150000 of many").waitFor();
  const count = await tab.page.evaluate(() => document.querySelectorAll(".log *").length);
  assert.ok(count <= 400, `${count} elements`);
  await tab.page.keyboard.press("/");
  await tab.page.keyboard.type("line 299999 ");
  await tab.page.keyboard.press("Enter");
  await tab.page.getByText("1 of 1").waitFor();
  await tab.page.locator(".log-line.hit mark").waitFor();
  await tab.page.getByRole("button", { name: "Line 299995", exact: true }).click();
  await tab.page.getByRole("button", { name: "Line 299998", exact: true }).click({ modifiers: ["Shift"] });
  assert.equal(new URL(tab.page.url()).hash, "#L299995-299998");
  await tab.page.getByRole("button", { name: "Copy 4" }).click();
  await tab.page.getByText("4 lines copied").waitFor();
  const copied = await tab.page.evaluate(() => navigator.clipboard.readText());
  assert.equal(copied, [5, 6, 7, 8].map((no) => `line 29999${no} of many\n`).join(""));
  assert.deepEqual(tab.wrong, []);
  await tab.context.close();
});

test("markup and escape codes in a log change nothing", async () => {
  const run = play("colours");
  const tab = await signedIn(browser, server);
  await tab.page.goto(`${server.url}/runs/${run}`);
  await tab.page.getByText(MARKUP).waitFor();
  assert.equal(await tab.page.locator(".log-view img, .log-view script, .log-view a").count(), 0);
  assert.equal(await tab.page.locator(".log-view .c1").first().textContent(), "red");
  assert.deepEqual(tab.wrong, []);
  await tab.context.close();
});

test("the page says when the server is gone, and goes on when it is back", async () => {
  const tab = await signedIn(browser, server);
  await tab.page.goto(`${server.url}/jobs`);
  await tab.page.getByText("live", { exact: false }).first().waitFor();
  await server.kill();
  await tab.page.getByText("connection lost").waitFor();
  await tab.page.getByText("As of").first().waitFor();
  await tab.page.getByRole("link", { name: "hello" }).waitFor();
  await server.restart();
  await tab.page.locator(".connection.on").waitFor();
  server.cadran("pause", "hello");
  await tab.page.locator("td .s-paused").waitFor();
  server.cadran("resume", "hello");
  await tab.context.close();
});

test("from sign-in to a log line without a mouse", async () => {
  const run = play("hello");
  const tab = await signedIn(browser, server);
  await settled(tab.page);
  await tab.page.keyboard.press("?");
  await tab.page.getByRole("dialog", { name: "Keys" }).waitFor();
  await tab.page.keyboard.press("Escape");
  await tab.page.keyboard.press("g");
  await tab.page.keyboard.press("r");
  await tab.page.getByRole("heading", { name: "Runs" }).waitFor();
  await tab.page.getByRole("link", { name: run }).waitFor();
  while ((await tab.page.evaluate(() => document.activeElement.textContent)) !== run) await tab.page.keyboard.press("j");
  await tab.page.keyboard.press("Enter");
  await tab.page.getByText("hello", { exact: true }).last().waitFor();
  const before = await tab.page.locator(".nav-foot button").first().textContent();
  await tab.page.keyboard.press("z");
  await tab.page.waitForFunction((text) => document.querySelector(".nav-foot button").textContent !== text, before);
  assert.deepEqual(tab.wrong, []);
  await tab.context.close();
});

test("why a paused job did not run, and when it has no due at all", async () => {
  const tab = await signedIn(browser, server);
  server.write("often.yaml", `schedule: "every 1s"\nsteps:\n  - run: "true"\n`);
  await tab.page.goto(`${server.url}/jobs`);
  await tab.page.getByRole("link", { name: "often" }).click();
  await tab.page.getByRole("heading", { name: "often" }).waitFor();
  await tab.page.getByRole("button", { name: "Pause" }).click();
  await tab.page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
  await tab.page.locator("main .head .s-paused").waitFor();
  // The named moment: a due of the pause is recorded as skipped.
  await tab.page.locator(".due.s-skipped").first().waitFor();
  const skipped = JSON.parse(server.cadran("history", "often", "--json")).history.find((item) => item.kind === "skip" || item.status === "skipped");
  await tab.page.goto(`${server.url}/jobs/often?at=${skipped.due_ms ?? skipped.last_due_ms}`);
  await tab.page.getByText("It was skipped.").waitFor();
  await tab.page.goto(`${server.url}/jobs/params?at=0`);
  await tab.page.getByText("It had no due then.").waitFor();
  await tab.page.getByLabel(/^At, in/).fill("2026-01-01T10:00");
  await tab.page.getByRole("button", { name: "Ask" }).click();
  await tab.page.waitForURL(/at=1767258000000/);
  assert.deepEqual(tab.wrong, []);
  await tab.context.close();
});

test("a file is tried: its mistake at line 4, then its dues, and nothing is written", async () => {
  const tab = await signedIn(browser, server);
  await tab.page.goto(`${server.url}/try`);
  await tab.page.getByText("The server would take it").waitFor();
  await tab.page.getByLabel("Text of the file").fill(`schedule: "30 2 * * *"\ntimezone: Europe/Paris\nsteps:\n  - nam: a\n    run: echo\n`);
  await tab.page.getByText("Line 4: unknown key").waitFor();
  await tab.page.goto(`${server.url}/try?job=hello`);
  await tab.page.getByText("The server would take it as hello").waitFor();
  await tab.page.getByLabel("Text of the file").fill(`schedule: "@yearly"\nsteps:\n  - run: echo\n`);
  await tab.page.getByText("01-01 00:00:00").first().waitFor();
  assert.match(server.cadran("jobs", "--json"), /\*\/5 \* \* \* \*/);
  assert.deepEqual(tab.wrong, []);
  await tab.context.close();
});

test("an edit is planned, saved over the file that was read and over no other, and compared with the revision before", async () => {
  const tab = await signedIn(browser, server);
  server.write("edited.yaml", `schedule: "0 3 * * *"\nsteps:\n  - name: a\n    run: echo one\n`);
  await tab.page.goto(`${server.url}/jobs`);
  await tab.page.getByRole("link", { name: "edited" }).waitFor();
  await tab.page.goto(`${server.url}/try?job=edited`);
  const text = tab.page.getByLabel("Text of the file");
  await tab.page.getByText("it means what is in force").waitFor();
  await text.fill(`schedule: "0 * * * *"\nsteps:\n  - name: a\n    run: echo two\n`);
  await tab.page.getByText("24 runs, 1 by what is in force.").waitFor();
  await tab.page.locator("td", { hasText: "new" }).first().waitFor();
  await tab.page.getByRole("button", { name: "Save the file" }).click();
  await tab.page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await tab.page.getByText("Saved; revision 2 is in force.").waitFor();
  // Somebody else changes the file: what was read is not there any more.
  server.write("edited.yaml", `schedule: "0 4 * * *"\nsteps:\n  - name: a\n    run: echo three\n`);
  await text.fill(`schedule: "0 5 * * *"\nsteps:\n  - name: a\n    run: echo four\n`);
  await tab.page.getByText("The server would take it as edited").waitFor();
  await tab.page.getByRole("button", { name: "Save the file" }).click();
  await tab.page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await tab.page.getByRole("dialog").getByRole("alert").waitFor();
  await tab.page.keyboard.press("Escape");
  await tab.page.goto(`${server.url}/jobs/edited`);
  await tab.page.getByText("File and revisions").click();
  await tab.page.getByText("echo three").first().waitFor();
  // A new job, whose name nobody has.
  await tab.page.goto(`${server.url}/try`);
  await tab.page.getByLabel("Name of the job").fill("created");
  await tab.page.getByRole("button", { name: "Create the job" }).click();
  await tab.page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await tab.page.waitForURL(/\/jobs\/created/);
  await tab.page.getByRole("heading", { name: "created" }).waitFor();
  assert.deepEqual(tab.wrong.filter((line) => !/4(09|12)/.test(line)), []);
  await tab.context.close();
});

test("a job file with a mistake is shown with its line", async () => {
  const tab = await signedIn(browser, server);
  await tab.page.goto(`${server.url}/problems`);
  await tab.page.getByText("rum").first().waitFor();
  await tab.page.getByText("broken.yaml").first().waitFor();
  server.write("broken.yaml", JOBS["hello.yaml"]);
  await tab.page.getByText("Every job file is good.").waitFor();
  assert.deepEqual(tab.wrong, []);
  await tab.context.close();
});
