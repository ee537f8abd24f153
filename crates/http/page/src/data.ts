// Data of a screen: loaded from the API, kept while it is loaded again, and loaded again when an event concerns it.
import { useEffect, useRef, useState } from "preact/hooks";

import { ApiFailure, get } from "./client";
import { listen, type LiveKind } from "./live";

export interface Data<T> {
  value: T | undefined;
  failure: ApiFailure | undefined;
  /** When the value was read. */
  asOf: number;
  reload: () => void;
}

export interface Wants {
  kinds?: LiveKind[];
  job?: string | undefined;
  run?: string | undefined;
  /** Also every so many milliseconds. */
  every?: number;
}

/** Events load anew this often at most, whatever arrives. */
const RELOAD_MS_MIN = 1000;

export function useData<T>(path: string | undefined, wants: Wants = {}): Data<T> {
  const [state, setState] = useState<{ path: string | undefined; value: T | undefined; failure: ApiFailure | undefined; asOf: number }>({ path, value: undefined, failure: undefined, asOf: 0 });
  const [turn, setTurn] = useState(0);
  const begun = useRef(0);
  const kinds = wants.kinds?.join() ?? "";

  useEffect(() => {
    if (path === undefined) return;
    let isCurrent = true;
    begun.current = Date.now();
    get<T>(path)
      .then((value) => isCurrent && setState({ path, value, failure: undefined, asOf: Date.now() }))
      .catch((failure: unknown) => {
        if (!isCurrent) return;
        const known = failure instanceof ApiFailure ? failure : new ApiFailure(0, "page", String(failure), undefined);
        setState((old) => ({ path, value: old.path === path ? old.value : undefined, failure: known, asOf: old.asOf }));
      });
    return () => {
      isCurrent = false;
    };
  }, [path, turn]);

  useEffect(() => {
    let timer = 0;
    const soon = (): void => {
      if (timer !== 0) return;
      const wait = Math.max(50, begun.current + RELOAD_MS_MIN - Date.now());
      timer = window.setTimeout(() => {
        timer = 0;
        setTurn((old) => old + 1);
      }, wait);
    };
    const stop = kinds === "" ? undefined : listen((kind, job, run) => {
      const isOurs = kinds.includes(kind) && (wants.job === undefined || job === undefined || job === wants.job) && (wants.run === undefined || run === undefined || run === wants.run);
      if (isOurs) soon();
    });
    const every = wants.every === undefined ? 0 : window.setInterval(() => document.visibilityState === "visible" && soon(), wants.every);
    return () => {
      stop?.();
      window.clearTimeout(timer);
      window.clearInterval(every);
    };
  }, [kinds, wants.job, wants.run, wants.every]);

  // A value of another address is not shown for this one.
  const isOurs = state.path === path;
  return { value: isOurs ? state.value : undefined, failure: isOurs ? state.failure : undefined, asOf: state.asOf, reload: () => setTurn((old) => old + 1) };
}
