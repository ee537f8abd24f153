// Small pieces that every screen is made of.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { ApiFailure } from "./client";
import type { Data } from "./data";
import { stream } from "./live";
import { agoText, clock, fullText, shortText, timeText, zone } from "./time";

/** Shape and word beside the colour: colour alone tells nobody anything. */
export const MARKS: Record<string, string> = {
  succeeded: "✓",
  failed: "✕",
  lost: "✕",
  stopped: "■",
  skipped: "⊘",
  running: "▶",
  retrying: "↻",
  waiting: "◷",
  promised: "○",
  pending: "○",
  active: "●",
  paused: "‖",
  removed: "–",
};

export function Status({ word, text }: { word: string; text?: string }): JSX.Element {
  return (
    <span class={`status s-${word}`}>
      <span aria-hidden="true">{MARKS[word] ?? "·"}</span> {text ?? word}
    </span>
  );
}

/** An instant. The exact one in both zones is shown on hover and focus. */
export function Time({ ms, ago }: { ms: number | null | undefined; ago?: boolean }): JSX.Element {
  if (ms === undefined || ms === null) return <span class="muted">–</span>;
  const title = `${fullText(ms)} ${zone.value}\n${fullText(ms, "UTC")} UTC`;
  return (
    <time dateTime={new Date(ms).toISOString()} title={title}>
      {ago ? agoText(ms, clock.value) : shortText(ms)}
    </time>
  );
}

export function Failure({ failure, retry }: { failure: ApiFailure; retry?: () => void }): JSX.Element {
  const isDenied = failure.status === 403;
  return (
    <div class={isDenied ? "note warn" : "note bad"} role="alert">
      <strong>{sentence(failure.message)}</strong>
      {failure.help !== undefined && <p>{sentence(failure.help)}</p>}
      {retry !== undefined && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export const sentence = (text: string): string => {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(first) ? first : `${first}.`;
};

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children !== undefined && <div>{children}</div>}
    </div>
  );
}

/** What a screen shows while nothing is there yet: nothing at first, since most answers come at once. */
function Waiting(): JSX.Element {
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => setLong(true), 150);
    return () => window.clearTimeout(timer);
  }, []);
  return (
    <div class="skeleton" aria-busy="true" role="status">
      {isLong && (
        <>
          <span class="sr">Loading</span>
          <i />
          <i />
          <i />
        </>
      )}
    </div>
  );
}

/** Shows data in its states: not there yet, failed, out of date, there. */
export function Loaded<T>({ data, children }: { data: Data<T>; children: (value: T) => ComponentChildren }): JSX.Element {
  const { value, failure, asOf, reload } = data;
  if (value === undefined) return failure === undefined ? <Waiting /> : <Failure failure={failure} retry={reload} />;
  const isStale = failure !== undefined || stream.value === "lost";
  return (
    <>
      {isStale && <p class="stale">As of {timeText(asOf)}{failure !== undefined && `: ${failure.message}`}</p>}
      {children(value)}
    </>
  );
}

export function Labels({ labels }: { labels: Record<string, string> | undefined }): JSX.Element | null {
  const rows = Object.entries(labels ?? {});
  if (rows.length === 0) return null;
  return (
    <span class="labels">
      {rows.map(([name, value]) => (
        <span class="label" key={name}>
          {value === "" ? name : `${name}: ${value}`}
        </span>
      ))}
    </span>
  );
}

export interface DialogProps {
  title: string;
  confirm: string;
  isBad?: boolean;
  /** There is nothing to confirm. */
  isOff?: boolean;
  children: ComponentChildren;
  onConfirm: () => Promise<void>;
  onClose: () => void;
}

/** Asks before something is changed, and says what the server made of it. */
export function Dialog({ title, confirm, isBad, isOff, children, onConfirm, onClose }: DialogProps): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [failure, setFailure] = useState<ApiFailure>();
  const [isBusy, setBusy] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const act = (): void => {
    setBusy(true);
    onConfirm()
      .then(onClose)
      .catch((error: unknown) => {
        setBusy(false);
        setFailure(error instanceof ApiFailure ? error : new ApiFailure(0, "page", String(error), undefined));
      });
  };
  return (
    <dialog ref={dialog} onClose={onClose} aria-label={title}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!isBusy) act();
        }}
      >
        <h2>{title}</h2>
        {children}
        {failure !== undefined && <Failure failure={failure} />}
        <footer>
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" class={isBad ? "bad" : "main"} disabled={isBusy || isOff === true}>
            {confirm}
          </button>
        </footer>
      </form>
    </dialog>
  );
}

/** A heading of a screen with what can be done there. */
export function Head({ title, sub, children }: { title: ComponentChildren; sub?: ComponentChildren; children?: ComponentChildren }): JSX.Element {
  return (
    <header class="head">
      <div>
        <h1>{title}</h1>
        {sub !== undefined && <p class="sub">{sub}</p>}
      </div>
      {children !== undefined && <div class="acts">{children}</div>}
    </header>
  );
}

/** The link of a row is the whole row's: `j`, `k` and Enter walk them. */
export function RowLink({ to, children }: { to: string; children: ComponentChildren }): JSX.Element {
  return (
    <a class="row-link" href={to}>
      {children}
    </a>
  );
}
