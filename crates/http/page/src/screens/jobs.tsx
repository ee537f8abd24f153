import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { JobItem, JobPage } from "../api";
import { mayChange, query } from "../client";
import { Empty, Head, Loaded, RowLink, Status, Time } from "../parts";
import { place, setQuery } from "../route";
import { countText, durationText } from "../time";
import { useWindow } from "../window";
import { Bulk, type BulkAct } from "./bulk";

/** Heights of a row, here and in the style sheet. */
const ROW_PX = 50;
const CARD_PX = 104;
const narrow = window.matchMedia("(max-width: 640px)");

const STATES = ["active", "paused", "disabled"];
const FIELDS = ["text", "state", "label", "last", "problem"] as const;

/** The whole fleet: filtered and sorted by the server, drawn where it is in view. */
export function Jobs(): JSX.Element {
  const fields = place.value.query;
  const filter = Object.fromEntries(FIELDS.map((name) => [name, fields.get(name) ?? ""])) as Record<(typeof FIELDS)[number], string>;
  const sort = fields.get("sort") ?? "name";
  const [typed, setTyped] = useState(filter.text);
  const [picked, setPicked] = useState<Set<string>>(new Set());
  const [isAll, setAll] = useState(false);
  const [bulk, setBulk] = useState<BulkAct | undefined>();
  const [isNarrow, setNarrow] = useState(narrow.matches);
  const body = useRef<HTMLTableSectionElement>(null);
  const rowTall = isNarrow ? CARD_PX : ROW_PX;
  const key = query({ ...filter, sort });
  const list = useWindow<JobItem>(key, (offset, limit) => `/jobs${query({ ...filter, sort, offset, limit })}`, (page: JobPage) => ({ rows: page.jobs, total: page.total }), rowTall, body, { kinds: ["job", "run", "problems"] });
  useEffect(() => {
    const change = (): void => setNarrow(narrow.matches);
    narrow.addEventListener("change", change);
    return () => narrow.removeEventListener("change", change);
  }, []);
  useEffect(() => setTyped(filter.text), [filter.text]);
  useEffect(() => {
    if (typed === filter.text) return;
    const timer = window.setTimeout(() => setQuery({ text: typed }), 200);
    return () => window.clearTimeout(timer);
  }, [typed]);
  useEffect(() => setAll(false), [key]);
  const toggle = (name: string): void => {
    const next = new Set(picked);
    if (!next.delete(name)) next.add(name);
    setPicked(next);
    setAll(false);
  };
  const drop = (): void => setQuery(Object.fromEntries(FIELDS.map((name) => [name, undefined])));
  const hasFilter = FIELDS.some((name) => filter[name] !== "");
  const count = isAll ? (list.total ?? 0) : picked.size;
  const acts: { act: BulkAct; word: string }[] = [{ act: "pause", word: "Pause" }, { act: "resume", word: "Resume" }, { act: "trigger", word: "Run" }];
  const rows: JSX.Element[] = [];
  for (let no = list.first; no < list.last; no += 1) {
    const job = list.row(no);
    rows.push(<Row key={no} no={no} job={job} isPicked={job !== undefined && (isAll || picked.has(job.name))} toggle={toggle} />);
  }
  return (
    <>
      <Head title="Jobs" sub={list.total === undefined ? undefined : `${countText(list.total)} ${hasFilter ? (list.total === 1 ? "job is like this" : "jobs are like this") : list.total === 1 ? "job" : "jobs"}`}>
        <input data-search type="search" placeholder="Filter by name" aria-label="Filter by name" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
      </Head>
      <div class="chips" role="group" aria-label="Filters">
        {STATES.map((word) => <Chip key={word} name="state" word={word} now={filter.state} />)}
        <Chip name="last" word="failed,lost" now={filter.last} text="last run failed" />
        <Chip name="problem" word="true" now={filter.problem} text="problem in its file" />
        {filter.label !== "" && <button type="button" aria-pressed title="Drop this filter" onClick={() => setQuery({ label: undefined })}>{filter.label} ×</button>}
        <span class="grow" />
        <label class="muted">Sort by{" "}
          <select value={sort} onChange={(event) => setQuery({ sort: event.currentTarget.value === "name" ? undefined : event.currentTarget.value })}>
            <option value="name">name</option><option value="next_due">next due</option><option value="last_end">last end</option><option value="lateness">lateness</option>
          </select>
        </label>
      </div>
      {count > 0 && mayChange() && (
        <div class="bulk-bar" role="region" aria-label="Picked jobs">
          <strong>{countText(count)} picked</strong>
          {acts.map(({ act, word }) => <button key={act} type="button" onClick={() => setBulk(act)}>{word} {countText(count)}</button>)}
          {!isAll && list.total !== undefined && picked.size < list.total && <button type="button" class="link" onClick={() => setAll(true)}>Pick all {countText(list.total)}{hasFilter ? " that are like this" : ""}</button>}
          <button type="button" class="link" onClick={() => { setPicked(new Set()); setAll(false); }}>Pick none</button>
        </div>
      )}
      <Loaded data={{ value: list.total, failure: list.failure, asOf: list.asOf, reload: list.reload }}>
        {(total) =>
          total === 0 && hasFilter ? (
            <Empty title={filter.text !== "" && !FIELDS.some((name) => name !== "text" && filter[name] !== "") ? `No job has “${filter.text}” in its name.` : "No job is like this."}>
              <button type="button" onClick={drop}>Drop the filter</button>
            </Empty>
          ) : total === 0 ? (
            <Empty title="There are no jobs yet.">
              <p>Put a file such as this one into the folder of jobs that the server watches:</p>
              <pre>{"schedule: \"*/5 * * * *\"\nsteps:\n  - name: hello\n    run: echo hello"}</pre>
            </Empty>
          ) : (
            <table class="jobs" aria-rowcount={total + 1}>
              <thead>
                <tr>
                  {mayChange() && <th class="tick"><span class="sr">Pick</span></th>}
                  <th class="c-job">Job</th><th class="c-state">State</th><th class="c-schedule">Schedule</th><th class="c-next">Next due</th><th class="c-last">Last run</th><th class="c-labels">Labels</th>
                </tr>
              </thead>
              <tbody ref={body}>
                <tr class="gap" aria-hidden="true"><td style={{ height: `${list.first * rowTall}px` }} /></tr>
                {rows}
                <tr class="gap" aria-hidden="true"><td style={{ height: `${(total - list.last) * rowTall}px` }} /></tr>
              </tbody>
            </table>
          )
        }
      </Loaded>
      {bulk !== undefined && <Bulk act={bulk} which={isAll ? { filter } : { names: [...picked].sort() }} onClose={(isDone) => { setBulk(undefined); if (isDone) { setPicked(new Set()); setAll(false); } list.reload(); }} />}
    </>
  );
}

/** A filter that is on or off. */
function Chip({ name, word, now, text }: { name: string; word: string; now: string; text?: string }): JSX.Element {
  const isOn = now === word;
  return <button type="button" aria-pressed={isOn} onClick={() => setQuery({ [name]: isOn ? undefined : word })}>{text ?? word}</button>;
}

function Row({ no, job, isPicked, toggle }: { no: number; job: JobItem | undefined; isPicked: boolean; toggle: (name: string) => void }): JSX.Element {
  if (job === undefined) return <tr aria-rowindex={no + 2} aria-busy="true"><td class="muted" colSpan={7}>…</td></tr>;
  const schedule = job.schedules.map((one) => one.description).join("; ");
  return (
    <tr class={isPicked ? "picked" : undefined} aria-rowindex={no + 2}>
      {mayChange() && <td class="tick"><input type="checkbox" aria-label={`Pick ${job.name}`} checked={isPicked} onChange={() => toggle(job.name)} /></td>}
      <td class="name" title={job.description ?? job.name}>
        <RowLink to={`/jobs/${job.name}`}>{job.name}</RowLink>
        {job.description !== undefined && job.description !== "" && <span class="muted line">{job.description}</span>}
      </td>
      <td class="c-state"><Status word={job.state} /></td>
      <td class="c-schedule" title={schedule}>{schedule === "" ? <span class="muted">by hand</span> : schedule}</td>
      <td class="c-next"><Time ms={job.next_due_ms} ago /></td>
      <td class="c-last">
        {job.last_run == null ? <span class="muted">never ran</span> : (
          <a href={`/runs/${job.last_run.id}`}><Status word={job.last_run.status} /> <Time ms={job.last_run.due_ms} ago />{(job.last_run.late_ms ?? 0) > LATE_MS && <span class="muted"> {durationText(job.last_run.late_ms ?? 0)} late</span>}</a>
        )}
      </td>
      <td class="c-labels">
        {Object.entries(job.labels ?? {}).map(([name, value]) => <button key={name} type="button" class="label" title={`Only jobs with ${name}: ${value}`} onClick={() => setQuery({ label: value === "" ? name : `${name}:${value}` })}>{value === "" ? name : `${name}: ${value}`}</button>)}
      </td>
    </tr>
  );
}

/** Lateness that is worth a word in a list. */
const LATE_MS = 1000;
