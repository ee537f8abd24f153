// Data of a screen: loaded from the API, kept while it is loaded again, and loaded again when an event concerns it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { atNextBeat, forget, type Load } from "./beat";
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

export const asFailure = (error: unknown): ApiFailure => (error instanceof ApiFailure ? error : new ApiFailure(0, "page", String(error), undefined));

/** Calls `act` when an event concerns what is wanted, or its time has come. */
export function useChanges(wants: Wants, act: () => void): void {
  const kinds = wants.kinds?.join() ?? "";
  const acting = useRef(act);
  acting.current = act;
  useEffect(() => {
    const stop = kinds === "" ? undefined : listen((kind, job, run) => {
      const isOurs = kinds.split(",").includes(kind) && (wants.job === undefined || job === undefined || job === wants.job) && (wants.run === undefined || run === undefined || run === wants.run);
      if (isOurs) acting.current();
    });
    const every = wants.every === undefined ? 0 : window.setInterval(() => document.visibilityState === "visible" && acting.current(), wants.every);
    return () => {
      stop?.();
      window.clearInterval(every);
    };
  }, [kinds, wants.job, wants.run, wants.every]);
}

export function useData<T>(path: string | undefined, wants: Wants = {}): Data<T> {
  const [state, setState] = useState<{ path: string | undefined; value: T | undefined; failure: ApiFailure | undefined; asOf: number }>({ path, value: undefined, failure: undefined, asOf: 0 });
  const current = useRef(path);
  current.current = path;
  const load: Load = useMemo(
    () => async () => {
      const wanted = current.current;
      if (wanted === undefined) return () => undefined;
      const isCurrent = (): boolean => current.current === wanted;
      return get<T>(wanted).then(
        (value) => () => isCurrent() && setState({ path: wanted, value, failure: undefined, asOf: Date.now() }),
        (error: unknown) => () => isCurrent() && setState((old) => ({ path: wanted, value: old.path === wanted ? old.value : undefined, failure: asFailure(error), asOf: old.asOf })),
      );
    },
    [],
  );
  // What is not there yet does not wait for the beat.
  useEffect(() => {
    let isCurrent = true;
    if (path !== undefined) void load().then((draw) => isCurrent && draw());
    return () => {
      isCurrent = false;
    };
  }, [path]);
  useEffect(() => () => {
    current.current = undefined;
    forget(load);
  }, []);
  useChanges(wants, () => atNextBeat(load));

  // A value of another address is not shown for this one.
  const isOurs = state.path === path;
  return { value: isOurs ? state.value : undefined, failure: isOurs ? state.failure : undefined, asOf: state.asOf, reload: () => void load().then((draw) => draw()) };
}
