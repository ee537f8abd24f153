import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import type { JobItem, JobPage } from "../api";
import { ApiFailure, mayChange, post, query } from "../client";
import { useData } from "../data";
import { Dialog, Empty, Head, Labels, Loaded, RowLink, Status, Time } from "../parts";
import { place, setQuery } from "../route";

const PAGE = 100;

export function Jobs(): JSX.Element {
  const fields = place.value.query;
  const text = fields.get("text") ?? "";
  const after = fields.get("after") ?? undefined;
  const [typed, setTyped] = useState(text);
  const [picked, setPicked] = useState<Set<string>>(new Set());
  const [bulk, setBulk] = useState<"pause" | "resume" | undefined>();
  const data = useData<JobPage>(`/jobs${query({ text, after, limit: PAGE })}`, { kinds: ["job", "run"] });
  useEffect(() => setTyped(text), [text]);
  useEffect(() => {
    if (typed === text) return;
    const timer = window.setTimeout(() => setQuery({ text: typed, after: undefined }), 200);
    return () => window.clearTimeout(timer);
  }, [typed]);
  const toggle = (name: string): void => {
    const next = new Set(picked);
    if (!next.delete(name)) next.add(name);
    setPicked(next);
  };
  return (
    <>
      <Head title="Jobs">
        {picked.size > 0 && mayChange() && (
          <>
            <button type="button" onClick={() => setBulk("pause")}>Pause {picked.size}</button>
            <button type="button" onClick={() => setBulk("resume")}>Resume {picked.size}</button>
          </>
        )}
        <input data-search type="search" placeholder="Filter by name" aria-label="Filter by name" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
      </Head>
      <Loaded data={data}>
        {({ jobs, next }) =>
          jobs.length === 0 && text !== "" ? (
            <Empty title={`No job has “${text}” in its name.`}>
              <button type="button" onClick={() => setQuery({ text: undefined, after: undefined })}>Drop the filter</button>
            </Empty>
          ) : jobs.length === 0 ? (
            <Empty title="There are no jobs yet.">
              <p>Put a file such as this one into the folder of jobs that the server watches:</p>
              <pre>{"schedule: \"*/5 * * * *\"\nsteps:\n  - name: hello\n    run: echo hello"}</pre>
            </Empty>
          ) : (
            <>
              <table class="cards jobs">
                <thead>
                  <tr>
                    {mayChange() && <th class="tick"><span class="sr">Pick</span></th>}
                    <th>Job</th>
                    <th>State</th>
                    <th>Schedule</th>
                    <th>Next due</th>
                    <th>Last run</th>
                  </tr>
                </thead>
                <tbody>
                  {jobs.map((job) => (
                    <Row key={job.name} job={job} isPicked={picked.has(job.name)} toggle={toggle} />
                  ))}
                </tbody>
              </table>
              <nav class="pages" aria-label="Pages">
                {after !== undefined && <button type="button" onClick={() => setQuery({ after: undefined }, false)}>First page</button>}
                {next != null && <button type="button" onClick={() => setQuery({ after: next }, false)}>Next page</button>}
              </nav>
            </>
          )
        }
      </Loaded>
      {bulk !== undefined && <Bulk act={bulk} names={[...picked].sort()} onClose={() => { setBulk(undefined); setPicked(new Set()); data.reload(); }} />}
    </>
  );
}

function Row({ job, isPicked, toggle }: { job: JobItem; isPicked: boolean; toggle: (name: string) => void }): JSX.Element {
  return (
    <tr class={isPicked ? "picked" : undefined}>
      {mayChange() && (
        <td class="tick">
          <input type="checkbox" aria-label={`Pick ${job.name}`} checked={isPicked} onChange={() => toggle(job.name)} />
        </td>
      )}
      <td class="name">
        <RowLink to={`/jobs/${job.name}`}>{job.name}</RowLink>
        {job.description !== undefined && job.description !== "" && <span class="muted line">{job.description}</span>}
        <Labels labels={job.labels} />
      </td>
      <td data-name="State"><Status word={job.state} /></td>
      <td data-name="Schedule">{job.schedules.length === 0 ? <span class="muted">by hand</span> : job.schedules.map((one) => one.description).join("; ")}</td>
      <td data-name="Next due"><Time ms={job.next_due_ms} ago /></td>
      <td data-name="Last run">
        {job.last_run == null ? <span class="muted">never</span> : (
          <a href={`/runs/${job.last_run.id}`}><Status word={job.last_run.status} /> <Time ms={job.last_run.due_ms} ago /></a>
        )}
      </td>
    </tr>
  );
}

/** Each job is its own request: what one refuses does not stop the others. */
function Bulk({ act, names, onClose }: { act: "pause" | "resume"; names: string[]; onClose: () => void }): JSX.Element {
  const run = async (): Promise<void> => {
    const failed: string[] = [];
    for (const name of names) {
      await post(`/jobs/${name}/${act}`).catch((error: unknown) => failed.push(`${name}: ${(error as ApiFailure).message}`));
    }
    if (failed.length > 0) throw new ApiFailure(0, "bulk", `${failed.length} of ${names.length} were refused: ${failed.slice(0, 5).join("; ")}`, undefined);
  };
  const title = `${act === "pause" ? "Pause" : "Resume"} ${names.length} ${names.length === 1 ? "job" : "jobs"}`;
  return (
    <Dialog title={title} confirm={title} onConfirm={run} onClose={onClose}>
      <p>{act === "pause" ? "No due of these starts until it is resumed. Runs that are on go on." : "Their schedules go on from now."}</p>
      <ul class="names">{names.map((name) => <li key={name}>{name}</li>)}</ul>
    </Dialog>
  );
}
