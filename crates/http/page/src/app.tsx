// The shell: navigation, keys, signing in, and which screen the address names.
import { render } from "preact";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { ApiFailure, loadSession, session, signIn } from "./client";
import { load, start, stream } from "./live";
import { Empty, Failure } from "./parts";
import { followLinks, go, place } from "./route";
import { Executors } from "./screens/executors";
import { Forecast } from "./screens/forecast";
import { Job } from "./screens/job";
import { Jobs } from "./screens/jobs";
import { LogScreen } from "./screens/log";
import { Now } from "./screens/now";
import { Problems } from "./screens/problems";
import { Run } from "./screens/run";
import { Runs } from "./screens/runs";
import { Servers } from "./screens/servers";
import { SessionScreen } from "./screens/session";
import { Try } from "./screens/try";
import { Waits } from "./screens/waits";
import { Why } from "./screens/why";
import { countText, switchZone, zone, zoneChoice } from "./time";

/** In groups: what happens, what will and why, what is written, who does it. */
const GROUPS: { path: string; key: string; name: string }[][] = [
  [
    { path: "", key: "n", name: "Now" },
    { path: "jobs", key: "j", name: "Jobs" },
    { path: "runs", key: "r", name: "Runs" },
  ],
  [
    { path: "forecast", key: "f", name: "Forecast" },
    { path: "why", key: "y", name: "Why" },
    { path: "waits", key: "w", name: "Waits" },
  ],
  [
    { path: "try", key: "t", name: "Try" },
    { path: "problems", key: "p", name: "Problems" },
  ],
  [
    { path: "executors", key: "e", name: "Executors" },
    { path: "servers", key: "v", name: "Servers" },
    { path: "session", key: "s", name: "Session" },
  ],
];
const SCREENS = GROUPS.flat();

function Screen(): JSX.Element {
  const [first, second, third, fourth] = place.value.path;
  if (first === undefined) return <Now />;
  if (first === "jobs") return second === undefined ? <Jobs /> : <Job key={second} name={second} />;
  if (first === "runs" && second === undefined) return <Runs />;
  if (first === "runs" && second !== undefined && third === "log" && fourth !== undefined) return <LogScreen key={`${second} ${fourth}`} run={second} step={fourth} />;
  if (first === "runs" && second !== undefined && third === undefined) return <Run key={second} id={second} />;
  if (second === undefined) {
    if (first === "forecast") return <Forecast />;
    if (first === "why") return <Why />;
    if (first === "waits") return <Waits />;
    if (first === "try") return <Try />;
    if (first === "executors") return <Executors />;
    if (first === "problems") return <Problems />;
    if (first === "servers") return <Servers />;
    if (first === "session") return <SessionScreen />;
  }
  return (
    <Empty title="There is nothing at this address.">
      <a href="/">Go to what happens now</a>
    </Empty>
  );
}

function Connection(): JSX.Element {
  const word = stream.value === "on" ? "live" : stream.value === "lost" ? "connection lost, trying again" : "connecting";
  const now = load.value;
  // Only the word is announced: the counts change every second.
  return (
    <p class={`connection ${stream.value}`}>
      <span aria-hidden="true">●</span> <span role="status">{word}</span>
      {stream.value === "on" && now !== undefined && (now.active > 0 || now.waiting > 0) && (
        <span class="muted">
          {countText(now.active)} active{now.waiting > 0 && `, ${countText(now.waiting)} waiting`}
        </span>
      )}
    </p>
  );
}

function Frame(): JSX.Element {
  const [help, setHelp] = useState(false);
  const [isMenuOpen, setMenuOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  useEffect(start, []);
  useEffect(() => keys(() => setHelp(true)), []);
  const current = place.value.path[0] ?? "";
  const here = place.value.path.join("/");
  useEffect(() => {
    const name = place.value.path.at(-1) ?? "Now";
    document.title = `${name.charAt(0).toUpperCase()}${name.slice(1)} · Cadran`;
    setMenuOpen(false);
  }, [here]);
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); event.stopPropagation(); main.current?.focus(); }}>
        Skip to content
      </a>
      <nav aria-label="Screens" class={isMenuOpen ? "open" : undefined}>
        <div class="nav-top">
          <a class="brand" href="/">
            <img src="/assets/icon.svg" alt="" width="22" height="22" /> Cadran
          </a>
          <Connection />
          <button type="button" class="menu" aria-expanded={isMenuOpen} aria-controls="screens" onClick={() => setMenuOpen(!isMenuOpen)}>
            Menu
          </button>
        </div>
        <div id="screens" class="screens">
          {GROUPS.map((group, no) => (
            <ul key={no}>
              {group.map(({ path, name }) => (
                <li key={path}>
                  <a href={`/${path}`} aria-current={current === path ? "page" : undefined}>
                    {name}
                  </a>
                </li>
              ))}
            </ul>
          ))}
          <div class="nav-foot">
            {session.value?.read_only === true && <p class="muted">Read-only session</p>}
            <button type="button" class="zone" onClick={switchZone} title="Switch the zone of all times (z)">
              {zoneChoice.value === "utc" ? "UTC" : zoneChoice.value === "job" ? `Job: ${zone.value}` : zone.value}
            </button>
            <button type="button" onClick={() => setHelp(true)} title="Keys (?)" aria-label="Keys">
              ?
            </button>
          </div>
        </div>
      </nav>
      <main id="main" ref={main} tabIndex={-1}>
        <Screen />
      </main>
      {help && <Keys onClose={() => setHelp(false)} />}
    </div>
  );
}

const KEYS: [string, string][] = [
  ["?", "These keys"],
  ["/", "Go to the filter or search"],
  ["j k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["z", "Switch the zone of all times"],
  ["Esc", "Close, or leave a field"],
  ...SCREENS.map(({ key, name }): [string, string] => [`g ${key}`, name]),
  ["n N", "In a log: next and previous match"],
  ["f w", "In a log: follow, wrap lines"],
  ["G :", "In a log: to the end, to a line"],
];

function Keys({ onClose }: { onClose: () => void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={onClose} aria-label="Keys">
      <h2>Keys</h2>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              {key.split(" ").map((part) => (
                <kbd key={part}>{part}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <label class="check">
        <input type="checkbox" checked={areKeysOn()} onChange={(event) => localStorage.setItem("keys", event.currentTarget.checked ? "on" : "off")} /> Single keys are on
      </label>
      <footer>
        <button type="button" class="main" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </footer>
    </dialog>
  );
}

function areKeysOn(): boolean {
  try {
    return localStorage.getItem("keys") !== "off";
  } catch {
    return true;
  }
}

/** Keys of the whole page; a screen may have more of its own. */
function keys(showHelp: () => void): () => void {
  let isGoing = false;
  const act = (event: KeyboardEvent): void => {
    const field = event.target as HTMLElement;
    const isTyping = field.matches("input:not([type=checkbox]), textarea, select");
    if (event.key === "Escape" && isTyping) field.blur();
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !areKeysOn() || document.querySelector("dialog[open]") !== null) return;
    const screen = isGoing ? SCREENS.find(({ key }) => key === event.key) : undefined;
    isGoing = event.key === "g" && !isGoing;
    if (screen !== undefined) go(`/${screen.path}`);
    else if (event.key === "?") showHelp();
    else if (event.key === "z") switchZone();
    else if (event.key === "/") {
      const search = document.querySelector<HTMLInputElement>("[data-search]");
      if (search === null) return;
      search.focus();
      search.select();
    } else if (event.key === "j" || event.key === "k") walk(event.key === "j" ? 1 : -1);
    else return;
    event.preventDefault();
  };
  document.addEventListener("keydown", act);
  return () => document.removeEventListener("keydown", act);
}

function walk(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>(".row-link")];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  const next = at === -1 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + by));
  rows[next]?.focus();
}

function SignIn(): JSX.Element {
  const [token, setToken] = useState("");
  const [failure, setFailure] = useState<ApiFailure>();
  const act = (event: Event): void => {
    event.preventDefault();
    signIn({ token: token.trim() }).catch((error: unknown) => setFailure(error as ApiFailure));
  };
  return (
    <main class="sign-in">
      <h1>
        <img src="/assets/icon.svg" alt="" width="28" height="28" /> Cadran
      </h1>
      <p>
        Run <code>cadran open</code> on the server's machine: it prints a link that signs this browser in.
      </p>
      {failureOfCode.failure !== undefined && <Failure failure={failureOfCode.failure} />}
      <form onSubmit={act}>
        <label for="token">Or paste the server's token</label>
        <input id="token" type="password" autocomplete="off" required value={token} onInput={(event) => setToken(event.currentTarget.value)} />
        <button type="submit" class="main">
          Sign in
        </button>
      </form>
      {failure !== undefined && <Failure failure={failure} />}
    </main>
  );
}

/** What became of the code in the address. */
const failureOfCode: { failure: ApiFailure | undefined } = { failure: undefined };

async function begin(): Promise<void> {
  const code = /^#code=([0-9a-f]{64})$/.exec(location.hash)?.[1];
  if (code !== undefined) {
    // The code leaves the address before anything else: it must not stay in the history.
    history.replaceState(null, "", location.pathname + location.search);
    place.value = { ...place.value, hash: "" };
    await signIn({ code }).catch((error: unknown) => {
      failureOfCode.failure = error as ApiFailure;
    });
  }
  if (session.value === undefined) await loadSession();
}

function App(): JSX.Element {
  const [failure, setFailure] = useState<ApiFailure>();
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    setFailure(undefined);
    begin().catch((error: unknown) => setFailure(error as ApiFailure));
  }, [turn]);
  if (failure !== undefined) {
    return (
      <main class="sign-in">
        <h1>Cadran</h1>
        <Failure failure={failure} retry={() => setTurn(turn + 1)} />
      </main>
    );
  }
  if (session.value === undefined) return <main class="sign-in" aria-busy="true" />;
  return session.value.signed_in ? <Frame /> : <SignIn />;
}

followLinks();
const root = document.getElementById("app");
if (root !== null) render(<App />, root);
