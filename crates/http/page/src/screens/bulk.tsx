// Something done to many jobs at once, after a look at what it would do.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { BulkDone } from "../api";
import { ApiFailure, request } from "../client";
import { asFailure } from "../data";
import { Dialog, Failure } from "../parts";
import { countText } from "../time";

export type BulkAct = "pause" | "resume" | "trigger";

/** Names, or everything that a filter finds. */
export type Which = { names: string[] } | { filter: Record<string, string> };

const NAMES_SHOWN = 200;

const WORDS: Record<BulkAct, { title: string; text: string; already: string }> = {
  pause: { title: "Pause", text: "No due of these starts until it is resumed. Runs that are on go on.", already: "paused already" },
  resume: { title: "Resume", text: "Their schedules go on from now.", already: "not paused" },
  trigger: { title: "Run", text: "Each of these gets one run, now, with the parameters of its file.", already: "run already" },
};

/** The body that names the jobs: an empty filter is none, and a flag is a flag. */
function bodyOf(which: Which): Record<string, unknown> {
  if ("names" in which) return { names: which.names };
  const { problem, ...texts } = which.filter;
  const filter: Record<string, unknown> = Object.fromEntries(Object.entries(texts).filter(([, value]) => value !== ""));
  if (problem === "true") filter.problem = true;
  return { filter };
}

export function Bulk({ act, which, onClose }: { act: BulkAct; which: Which; onClose: (isDone: boolean) => void }): JSX.Element {
  const [dry, setDry] = useState<BulkDone>();
  const [failure, setFailure] = useState<ApiFailure>();
  const [isDone, setDone] = useState(false);
  // Asked for twice, as after a lost answer, it is done once.
  const key = useRef(`page-${Date.now()}-${Math.random().toString(36).slice(2)}`);
  const ask = (isDry: boolean): Promise<BulkDone> => request<BulkDone>("POST", `/api/v1/jobs:${act}`, { ...bodyOf(which), dry_run: isDry }, [], act === "trigger" && !isDry ? { "Idempotency-Key": key.current } : {});
  useEffect(() => {
    ask(true).then(setDry, (error: unknown) => setFailure(asFailure(error)));
  }, []);
  const named = (word: string): string[] => (dry?.results ?? []).filter((row) => row.result === word).map((row) => row.job);
  const moved = named("would");
  const [kept, refused] = [named("already").length, (dry?.results ?? []).filter((row) => row.result === "refused")];
  const { title, text, already } = WORDS[act];
  const whole = `${title} ${countText(moved.length)} ${moved.length === 1 ? "job" : "jobs"}`;
  const run = async (): Promise<void> => {
    const done = await ask(false);
    setDone(true);
    const failed = done.results.filter((row) => row.result === "refused");
    if (failed.length > 0) throw new ApiFailure(0, "bulk", `${countText(failed.length)} of ${countText(done.total)} were refused: ${failed.slice(0, 5).map((row) => `${row.job}: ${row.error?.message ?? "refused"}`).join("; ")}`, undefined);
  };
  return (
    <Dialog title={dry === undefined ? title : whole} confirm={dry === undefined ? title : whole} isOff={moved.length === 0} onConfirm={run} onClose={() => onClose(isDone)}>
      {failure !== undefined && <Failure failure={failure} />}
      {dry === undefined ? failure === undefined && <p class="muted">Looking at what would be done…</p> : (
        <>
          <p>{text}</p>
          {kept > 0 && <p class="muted">{countText(kept)} of {countText(dry.total)} {kept === 1 ? "is" : "are"} {already}: nothing changes for {kept === 1 ? "it" : "them"}.</p>}
          {refused.length > 0 && <p class="muted">{countText(refused.length)} would be refused: {refused.slice(0, 5).map((row) => `${row.job}: ${row.error?.message ?? ""}`).join("; ")}</p>}
          <ul class="names">{moved.slice(0, NAMES_SHOWN).map((name) => <li key={name}>{name}</li>)}</ul>
          {moved.length > NAMES_SHOWN && <p class="muted">and {countText(moved.length - NAMES_SHOWN)} more</p>}
        </>
      )}
    </Dialog>
  );
}
