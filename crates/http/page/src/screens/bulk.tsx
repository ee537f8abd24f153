// Something done to many jobs at once, after a look at what it would do.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import type { JobItem, JobPage } from "../api";
import { ApiFailure, get, post, query } from "../client";
import { Dialog, Failure } from "../parts";
import { countText } from "../time";
import { asFailure } from "../data";

export type BulkAct = "pause" | "resume" | "trigger";

/** Names, or everything that a filter finds. */
export type Which = { names: string[] } | { filter: Record<string, string> };

/** Jobs that one command may touch. */
const JOBS_MAX = 5000;
const NAMES_SHOWN = 200;

const WORDS: Record<BulkAct, { title: string; text: string }> = {
  pause: { title: "Pause", text: "No due of these starts until it is resumed. Runs that are on go on." },
  resume: { title: "Resume", text: "Their schedules go on from now." },
  trigger: { title: "Run", text: "Each of these gets one run, now, with the parameters of its file." },
};

/** Whether there is something to do for a job in this state. */
const isMoved = (act: BulkAct, job: JobItem): boolean => (act === "pause" ? job.state !== "paused" : act === "resume" ? job.state === "paused" : true);

export function Bulk({ act, which, onClose }: { act: BulkAct; which: Which; onClose: (isDone: boolean) => void }): JSX.Element {
  const [jobs, setJobs] = useState<JobItem[]>();
  const [failure, setFailure] = useState<ApiFailure>();
  const [isDone, setDone] = useState(false);
  useEffect(() => {
    find(which).then(setJobs, (error: unknown) => setFailure(asFailure(error)));
  }, []);
  const moved = (jobs ?? []).filter((job) => isMoved(act, job));
  const kept = (jobs ?? []).length - moved.length;
  const { title, text } = WORDS[act];
  const named = `${title} ${countText(moved.length)} ${moved.length === 1 ? "job" : "jobs"}`;
  /** Each job is its own request: what one refuses does not stop the others. */
  const run = async (): Promise<void> => {
    const refused: string[] = [];
    for (const job of moved) await post(`/jobs/${job.name}/${act}`).catch((error: unknown) => refused.push(`${job.name}: ${asFailure(error).message}`));
    setDone(true);
    if (refused.length > 0) throw new ApiFailure(0, "bulk", `${countText(refused.length)} of ${countText(moved.length)} were refused: ${refused.slice(0, 5).join("; ")}`, undefined);
  };
  return (
    <Dialog title={jobs === undefined ? title : named} confirm={jobs === undefined ? title : named} isOff={moved.length === 0} onConfirm={run} onClose={() => onClose(isDone)}>
      {failure !== undefined && <Failure failure={failure} />}
      {jobs === undefined ? failure === undefined && <p class="muted">Looking for the jobs…</p> : (
        <>
          <p>{text}</p>
          {kept > 0 && <p class="muted">{countText(kept)} of {countText(jobs.length)} {kept === 1 ? "is" : "are"} {act === "pause" ? "paused already" : "not paused"}: nothing changes for {kept === 1 ? "it" : "them"}.</p>}
          <ul class="names">{moved.slice(0, NAMES_SHOWN).map((job) => <li key={job.name}>{job.name}</li>)}</ul>
          {moved.length > NAMES_SHOWN && <p class="muted">and {countText(moved.length - NAMES_SHOWN)} more</p>}
        </>
      )}
    </Dialog>
  );
}

async function find(which: Which): Promise<JobItem[]> {
  if ("names" in which) return Promise.all(which.names.map((name) => get<JobItem>(`/jobs/${encodeURIComponent(name)}`)));
  const found: JobItem[] = [];
  for (;;) {
    const page = await get<JobPage>(`/jobs${query({ ...which.filter, offset: found.length, limit: 1000 })}`);
    if (page.total > JOBS_MAX) throw new ApiFailure(0, "bulk", `${countText(page.total)} jobs are more than one command may touch (${countText(JOBS_MAX)})`, "filter for fewer");
    found.push(...page.jobs);
    if (page.jobs.length === 0 || found.length >= page.total) return found;
  }
}
