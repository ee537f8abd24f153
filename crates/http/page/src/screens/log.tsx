// A log of any size: only the lines in view are fetched and drawn.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { LinePage, LogItem, LogPage, MatchPage } from "../api";
import { plain, spans } from "../ansi";
import { ApiFailure, get, query } from "../client";
import { useData } from "../data";
import { Failure, Head, Loaded } from "../parts";
import { place } from "../route";

const LINE_PX = 20;
const CHUNK = 200;
const CHUNKS_MAX = 24;
/** Browsers clamp the height of elements at about 16 million pixels; beyond this the scroll space is scaled. */
const SPACE_PX_MAX = 8_000_000;
/** Height of a log beside other things: that of its lines, between these. */
const LOG_PX_MIN = 120;
const LOG_PX_MAX = 520;
/** Lines copied at once. */
const COPY_LINES_MAX = 20_000;

export function LogScreen({ run, step }: { run: string; step: string }): JSX.Element {
  const data = useData<LogPage>(`/runs/${encodeURIComponent(run)}/logs`, { kinds: ["run"], run });
  return (
    <div class="log-screen">
      <Head title={<><a href={`/runs/${run}?step=${encodeURIComponent(step)}`}>{run}</a> {step}</>} />
      <Loaded data={data}>{({ logs, ended }) => <LogView run={run} step={step} logs={logs.filter((log) => log.step === step)} ended={ended} isWhole />}</Loaded>
    </div>
  );
}

interface ViewProps {
  run: string;
  step: string;
  logs: LogItem[];
  ended: boolean;
  isWhole?: boolean;
}

export function LogView({ run, step, logs, ended, isWhole }: ViewProps): JSX.Element {
  const newest = Math.max(...logs.map((log) => log.attempt), 1);
  const [attempt, setAttempt] = useState<number | undefined>();
  const [share, setShare] = useState<number | undefined>(logs[0]?.share ?? undefined);
  const chosen = attempt ?? newest;
  const path = `/runs/${encodeURIComponent(run)}/logs/${encodeURIComponent(step)}`;
  const shares = [...new Set(logs.flatMap((log) => (log.share == null ? [] : [log.share])))];
  return (
    <>
      {(newest > 1 || shares.length > 0) && (
        <div class="log-picks">
          {newest > 1 && <label>Attempt <select value={chosen} onChange={(event) => setAttempt(Number(event.currentTarget.value))}>{[...new Set(logs.map((log) => log.attempt))].sort((a, b) => a - b).map((no) => <option key={no} value={no}>{no}</option>)}</select></label>}
          {shares.length > 0 && <label>Share <select value={share} onChange={(event) => setShare(Number(event.currentTarget.value))}>{shares.map((no) => <option key={no} value={no}>{no}</option>)}</select></label>}
        </div>
      )}
      <Viewer key={`${chosen} ${share}`} path={path} fields={{ attempt: chosen, share }} full={`/runs/${run}/log/${encodeURIComponent(step)}`} ended={ended} isWhole={isWhole === true} />
    </>
  );
}

interface ViewerProps {
  path: string;
  fields: { attempt: number; share: number | undefined };
  full: string;
  ended: boolean;
  isWhole: boolean;
}

function Viewer({ path, fields, full, ended, isWhole }: ViewerProps): JSX.Element {
  const chunks = useRef(new Map<number, string[]>());
  const asked = useRef(new Set<number>());
  const view = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const [total, setTotal] = useState<number>();
  const [, redraw] = useState(0);
  const [top, setTop] = useState(0);
  const [tall, setTall] = useState(400);
  const [wraps, setWraps] = useState(false);
  const [follows, setFollows] = useState(!ended && !/^#L\d/.test(place.value.hash));
  const [failure, setFailure] = useState<ApiFailure>();
  const [range, setRange] = useState(readRange(place.value.hash));
  const [text, setText] = useState("");
  const [found, setFound] = useState<{ text: string; lines: number[]; next: number | undefined; at: number }>();
  const [said, setSaid] = useState("");

  const fetchChunk = (no: number): void => {
    if (asked.current.has(no)) return;
    asked.current.add(no);
    get<LinePage>(`${path}/lines${query({ ...fields, from: no * CHUNK, count: CHUNK })}`)
      .then((page) => {
        chunks.current.set(no, page.lines);
        if (chunks.current.size > CHUNKS_MAX) {
          const oldest = chunks.current.keys().next().value;
          if (oldest !== undefined) chunks.current.delete(oldest);
        }
        setTotal(page.total);
        setFailure(undefined);
        redraw((old) => old + 1);
      })
      .catch((error: unknown) => setFailure(error as ApiFailure))
      .finally(() => asked.current.delete(no));
  };

  // A log that grows is asked for its last chunk again; what came before stays.
  useEffect(() => {
    const look = (): void => fetchChunk(Math.max(0, Math.floor(((totalNow.current ?? 1) - 1) / CHUNK)));
    look();
    if (ended) return;
    const timer = window.setInterval(() => document.visibilityState === "visible" && look(), 1000);
    return () => window.clearInterval(timer);
  }, [ended]);
  const totalNow = useRef(total);
  totalNow.current = total;

  useEffect(() => {
    const box = view.current;
    if (box === null) return;
    const observer = new ResizeObserver(() => setTall(box.clientHeight));
    observer.observe(box);
    return () => observer.disconnect();
  }, []);

  const lines = total ?? 0;
  const real = lines * LINE_PX;
  const space = Math.min(real, SPACE_PX_MAX);
  // Of the scroll space and of the lines, the same share is above the view.
  const scale = space > tall ? (real - tall) / (space - tall) : 1;
  const first = Math.max(0, Math.min(lines, Math.floor((top * scale) / LINE_PX)));
  const count = Math.ceil(tall / LINE_PX) + 1;
  const last = Math.min(lines, first + count);

  const showLine = (line: number): void => {
    const box = view.current;
    if (box === null) return;
    box.scrollTop = Math.max(0, (line - Math.floor(count / 3)) * LINE_PX) / scale;
  };

  useEffect(() => {
    if (total === undefined) return;
    for (let no = Math.floor(first / CHUNK); no <= Math.floor(Math.max(first, last - 1) / CHUNK); no += 1) {
      const have = chunks.current.get(no)?.length ?? 0;
      if (have < Math.min(CHUNK, lines - no * CHUNK)) fetchChunk(no);
    }
  }, [first, last, lines]);

  useEffect(() => {
    if (follows && view.current !== null) view.current.scrollTop = view.current.scrollHeight;
  }, [follows, lines, tall]);

  const isPlaced = useRef(false);
  useEffect(() => {
    if (isPlaced.current || total === undefined || range === undefined) return;
    isPlaced.current = true;
    showLine(range[0]);
  }, [total, tall]);

  const search = (from: number, before: number[]): void => {
    if (text === "") {
      setFound(undefined);
      return;
    }
    // `:120` is a place, not a text.
    const line = /^:(\d+)$/.exec(text)?.[1];
    if (line !== undefined) {
      const no = Math.max(0, Math.min(lines, Number(line)) - 1);
      pick(no, false);
      showLine(no);
      return;
    }
    get<MatchPage>(`${path}/search${query({ ...fields, q: text, from, limit: 1000 })}`)
      .then((page) => {
        const all = [...before, ...page.lines];
        const at = before.length < all.length ? before.length : Math.max(0, all.length - 1);
        setFound({ text, lines: all, next: page.next ?? undefined, at });
        setFollows(false);
        const line = all[at];
        if (line !== undefined) showLine(line);
      })
      .catch((error: unknown) => setFailure(error as ApiFailure));
  };
  const step = (by: number): void => {
    if (found === undefined || found.lines.length === 0) return;
    const at = found.at + by;
    if (at >= found.lines.length && found.next !== undefined) {
      search(found.next, found.lines);
      return;
    }
    const next = (at + found.lines.length) % found.lines.length;
    setFound({ ...found, at: next });
    setFollows(false);
    showLine(found.lines[next] ?? 0);
  };

  useEffect(() => {
    const act = (event: KeyboardEvent): void => {
      const isFind = event.key === "f" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
      // The first Ctrl-F is for the whole log; the second, from within the field, is the browser's.
      if (isFind && document.activeElement !== field.current) {
        event.preventDefault();
        field.current?.focus();
        field.current?.select();
        return;
      }
      if ((event.target as HTMLElement).matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") !== null) return;
      if (event.key === "n") step(1);
      else if (event.key === "N") step(-1);
      else if (event.key === "f") setFollows((old) => !old);
      else if (event.key === "w") setWraps((old) => !old);
      else if (event.key === "G") showLine(lines);
      else if (event.key === ":") {
        event.preventDefault();
        setText(":");
        field.current?.focus();
      }
    };
    document.addEventListener("keydown", act);
    return () => document.removeEventListener("keydown", act);
  });

  const pick = (line: number, isMore: boolean): void => {
    const next: [number, number] = isMore && range !== undefined ? [Math.min(range[0], line), Math.max(range[0], line)] : [line, line];
    setRange(next);
    setFollows(false);
    history.replaceState(null, "", `${location.pathname}${location.search}#L${next[0] + 1}${next[0] === next[1] ? "" : `-${next[1] + 1}`}`);
  };

  const copy = async (): Promise<void> => {
    const [from, to] = range ?? [0, lines - 1];
    const wanted = Math.min(COPY_LINES_MAX, to - from + 1);
    const all: string[] = [];
    while (all.length < wanted) {
      const page = await get<LinePage>(`${path}/lines${query({ ...fields, from: from + all.length, count: Math.min(1000, wanted - all.length) })}`);
      if (page.lines.length === 0) break;
      all.push(...page.lines);
    }
    await navigator.clipboard.writeText(`${all.map(plain).join("\n")}\n`);
    setSaid(`${all.length} lines copied${wanted < to - from + 1 ? `, the first of ${to - from + 1}` : ""}`);
  };

  const rows: JSX.Element[] = [];
  for (let no = first; no < last; no += 1) {
    const line = chunks.current.get(Math.floor(no / CHUNK))?.[no % CHUNK];
    const isPicked = range !== undefined && no >= range[0] && no <= range[1];
    const isHit = found?.lines[found.at] === no;
    rows.push(
      <div key={no} class={`log-line${isPicked ? " picked" : ""}${isHit ? " hit" : ""}`}>
        <button type="button" class="no" tabIndex={-1} aria-label={`Line ${no + 1}`} onClick={(event) => pick(no, event.shiftKey)}>{no + 1}</button>
        <Line text={line} needle={found?.text} />
      </div>,
    );
  }
  const unseen = (top * scale) % LINE_PX;
  return (
    <div class={isWhole ? "log whole" : "log"}>
      <div class="log-bar">
        <form onSubmit={(event) => { event.preventDefault(); if (found !== undefined && found.text === text) step(1); else search(0, []); }}>
          <input data-search ref={field} type="search" placeholder="Search, or :line" aria-label="Search the log, or go to a line with a colon and its number" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </form>
        {found !== undefined && (
          <span class="muted" role="status">{found.lines.length === 0 ? "not found" : `${found.at + 1} of ${found.lines.length}${found.next === undefined ? "" : "+"}`}</span>
        )}
        <span class="grow" />
        <span class="muted" role="status">{said}</span>
        {!ended && <button type="button" aria-pressed={follows} onClick={() => setFollows(!follows)}>Follow</button>}
        <button type="button" aria-pressed={wraps} onClick={() => setWraps(!wraps)}>Wrap</button>
        <button type="button" onClick={() => void copy().catch((error: unknown) => setSaid(`not copied: ${String(error)}`))}>{range === undefined ? "Copy" : `Copy ${range[1] - range[0] + 1}`}</button>
        <a class="button" href={`/api/v1${path}${query(fields)}`} download={`${path.split("/").pop() ?? "log"}.log`}>Download</a>
        {!isWhole && <a class="button" href={full}>Open</a>}
      </div>
      {failure !== undefined && failure.code !== "no_such_log" && <Failure failure={failure} />}
      <div class={wraps ? "log-view wraps" : "log-view"} ref={view} style={isWhole || total === undefined ? undefined : { height: `${Math.min(LOG_PX_MAX, Math.max(LOG_PX_MIN, real + 16))}px` }} tabIndex={0} role="log" aria-live="off" aria-label={`Log, ${lines} lines`}
        onScroll={(event) => {
          const box = event.currentTarget;
          setTop(box.scrollTop);
          if (follows && box.scrollTop + box.clientHeight < box.scrollHeight - 2 * LINE_PX) setFollows(false);
        }}>
        <div class="log-space" style={{ height: `${space}px` }}>
          <div class="log-lines" style={{ transform: `translateY(${Math.max(0, top - unseen)}px)` }}>{rows}</div>
        </div>
      </div>
      <p class="muted log-foot">{lines} {lines === 1 ? "line" : "lines"}{!ended && ", the run is on"}</p>
    </div>
  );
}

function readRange(hash: string): [number, number] | undefined {
  const found = /^#L(\d+)(?:-(\d+))?$/.exec(hash);
  if (found === null) return undefined;
  const from = Math.max(1, Number(found[1])) - 1;
  return [from, Math.max(from, Number(found[2] ?? found[1]) - 1)];
}

function Line({ text, needle }: { text: string | undefined; needle: string | undefined }): JSX.Element {
  if (text === undefined) return <span class="text muted">…</span>;
  return (
    <span class="text">
      {spans(text).map((span, no) => (
        <span key={no} class={span.classes} style={span.colour === undefined ? undefined : { color: span.colour }}>{marked(span.text, needle)}</span>
      ))}
    </span>
  );
}

function marked(text: string, needle: string | undefined): JSX.Element | string {
  if (needle === undefined || needle === "") return text;
  const isExact = /\p{Lu}/u.test(needle);
  const [where, what] = isExact ? [text, needle] : [text.toLowerCase(), needle.toLowerCase()];
  const parts: (JSX.Element | string)[] = [];
  let at = 0;
  for (let hit = where.indexOf(what); hit !== -1; hit = where.indexOf(what, at)) {
    parts.push(text.slice(at, hit), <mark key={hit}>{text.slice(hit, hit + what.length)}</mark>);
    at = hit + what.length;
  }
  return at === 0 ? text : <>{parts}{text.slice(at)}</>;
}
