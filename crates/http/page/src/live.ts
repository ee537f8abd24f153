// The stream of events: one while the tab is visible, resumed by id when it is shown again.
import { signal } from "@preact/signals";

export type LiveKind = "run" | "skip" | "job" | "problems";

export interface Load {
  active: number;
  waiting: number;
  at_ms: number;
}

export const load = signal<Load | undefined>(undefined);
/** "on", "off" before the first event and while hidden, or "lost". */
export const stream = signal<"off" | "on" | "lost">("off");

type Listener = (kind: LiveKind, job: string | undefined, run: string | undefined) => void;
const listeners = new Set<Listener>();

export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

let source: EventSource | undefined;
let lastId = "";

function tell(kind: LiveKind, data: { job?: string; run?: string }): void {
  for (const listener of listeners) listener(kind, data.job, data.run);
}

/** Everything shown may be out of date. */
function tellAll(): void {
  for (const kind of ["run", "skip", "job", "problems"] as const) tell(kind, {});
}

function open(): void {
  if (source !== undefined) return;
  source = new EventSource(`/api/v1/events${lastId === "" ? "" : `?after=${encodeURIComponent(lastId)}`}`);
  const on = (name: string, act: (data: never) => void): void =>
    source?.addEventListener(name, (event: MessageEvent<string>) => {
      if (event.lastEventId !== "") lastId = event.lastEventId;
      act(JSON.parse(event.data) as never);
    });
  on("hello", () => {
    if (stream.value === "lost") tellAll();
    stream.value = "on";
  });
  on("tick", (data: Load) => {
    load.value = data;
    stream.value = "on";
  });
  for (const kind of ["run", "skip", "job", "problems"] as const) on(kind, (data: { job?: string; run?: string }) => tell(kind, data));
  on("burst", (data: { newest: { kind: LiveKind; data: { job?: string; run?: string } }[] }) => {
    for (const one of data.newest) tell(one.kind, one.data);
  });
  on("reset", tellAll);
  source.onerror = () => {
    stream.value = "lost";
    // A browser tries again by itself after a lost connection, and gives up after an answer such as 401.
    if (source?.readyState === EventSource.CLOSED) {
      close();
      retry = window.setTimeout(open, 3000);
    }
  };
}

let retry = 0;

function close(): void {
  window.clearTimeout(retry);
  source?.close();
  source = undefined;
}

function follow(): void {
  if (document.visibilityState === "visible") open();
  else {
    close();
    stream.value = "off";
  }
}

export function start(): () => void {
  follow();
  document.addEventListener("visibilitychange", follow);
  return () => {
    document.removeEventListener("visibilitychange", follow);
    close();
  };
}
