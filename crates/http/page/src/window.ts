// A long list of which only the part in view is fetched and drawn. The document scrolls, rows have one height.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";

import { atNextBeat, forget, type Load } from "./beat";
import { get, type ApiFailure } from "./client";
import { asFailure, useChanges, type Wants } from "./data";

/** Rows fetched at once. */
const CHUNK = 100;
/** Chunks kept. */
const CHUNKS_MAX = 12;
/** Rows drawn above and below the view. */
const MARGIN = 8;

export interface ListWindow<T> {
  /** How many rows there are; undefined until the first answer. */
  total: number | undefined;
  /** The first row drawn, and the one behind the last. */
  first: number;
  last: number;
  row: (no: number) => T | undefined;
  failure: ApiFailure | undefined;
  asOf: number;
  reload: () => void;
}

interface Page<T> {
  rows: T[];
  total: number;
}

/** `path` names a page by its offset and length. A change of `key` starts a new list. */
export function useWindow<T>(key: string, path: (offset: number, limit: number) => string, read: (answer: never) => Page<T>, rowTall: number, box: RefObject<HTMLElement | null>, wants: Wants): ListWindow<T> {
  const [, redraw] = useState(0);
  const list = useRef({ key, chunks: new Map<number, T[]>(), asked: new Set<number>(), total: undefined as number | undefined, failure: undefined as ApiFailure | undefined, asOf: 0 });
  if (list.current.key !== key) list.current = { key, chunks: new Map(), asked: new Set(), total: undefined, failure: undefined, asOf: 0 };
  const [view, setView] = useState({ top: 0, tall: window.innerHeight });

  useEffect(() => {
    let frame = 0;
    const look = (): void => {
      frame = 0;
      // Without rows yet the list begins somewhere below the top of the view.
      const top = Math.max(0, -(box.current?.getBoundingClientRect().top ?? 0));
      setView((old) => (old.top === top && old.tall === window.innerHeight ? old : { top, tall: window.innerHeight }));
    };
    const soon = (): void => {
      if (frame === 0) frame = requestAnimationFrame(look);
    };
    look();
    window.addEventListener("scroll", soon, { passive: true });
    window.addEventListener("resize", soon);
    return () => {
      cancelAnimationFrame(frame);
      window.removeEventListener("scroll", soon);
      window.removeEventListener("resize", soon);
    };
  }, [key]);

  const total = list.current.total;
  const first = Math.max(0, Math.min((total ?? 0) - 1, Math.floor(view.top / rowTall) - MARGIN));
  const last = Math.min(total ?? 0, Math.ceil((view.top + view.tall) / rowTall) + MARGIN);

  const fetchChunk = async (no: number): Promise<() => void> => {
    const ours = list.current;
    ours.asked.add(no);
    const draw = await get<never>(path(no * CHUNK, CHUNK)).then(
      (answer) => () => {
        const page = read(answer);
        ours.chunks.delete(no);
        ours.chunks.set(no, page.rows);
        const oldest = ours.chunks.keys().next().value;
        if (ours.chunks.size > CHUNKS_MAX && oldest !== undefined) ours.chunks.delete(oldest);
        Object.assign(ours, { total: page.total, failure: undefined, asOf: Date.now() });
      },
      (error: unknown) => () => void (ours.failure = asFailure(error)),
    );
    ours.asked.delete(no);
    return () => {
      draw();
      if (list.current === ours) redraw((old) => old + 1);
    };
  };
  const inView = (): number[] => {
    const from = Math.floor(first / CHUNK);
    const to = Math.max(from, Math.floor((Math.max(first, last - 1)) / CHUNK));
    return Array.from({ length: to - from + 1 }, (_, at) => from + at);
  };
  const now = useRef({ fetchChunk, inView });
  now.current = { fetchChunk, inView };

  useEffect(() => {
    for (const no of inView()) if (!list.current.chunks.has(no) && !list.current.asked.has(no)) void fetchChunk(no).then((draw) => draw());
  }, [key, first, last]);

  const load: Load = useMemo(
    () => async () => {
      const draws = await Promise.all(now.current.inView().map((no) => now.current.fetchChunk(no)));
      // What is out of view may be out of date: it is fetched when it comes into view.
      const seen = new Set(now.current.inView());
      return () => {
        for (const no of [...list.current.chunks.keys()]) if (!seen.has(no)) list.current.chunks.delete(no);
        for (const draw of draws) draw();
      };
    },
    [],
  );
  useEffect(() => () => forget(load), []);
  useChanges(wants, () => atNextBeat(load));

  return {
    total,
    first,
    last: Math.max(first, last),
    row: (no) => list.current.chunks.get(Math.floor(no / CHUNK))?.[no % CHUNK],
    failure: list.current.failure,
    asOf: list.current.asOf,
    reload: () => void load().then((draw) => draw()),
  };
}
