import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import type { Definition, Graph as GraphAnswer, HistoryItem, HistoryPage, JobDetail, Stats, Triggered, WhyAt } from "../api";
import { mayChange, post, query } from "../client";
import { useData } from "../data";
import { Graph } from "../graph";
import { Dialog, Empty, Head, Labels, Loaded, Status, Time, sentence } from "../parts";
import { go, place, setQuery } from "../route";
import { clock, countText, durationText, fullText, instantOf, jobZone, shortText, zone } from "../time";
import { Revisions } from "./revisions";
import { took } from "./runlist";

export function Job({ name }: { name: string }): JSX.Element {
  const data = useData<JobDetail>(`/jobs/${encodeURIComponent(name)}`, { kinds: ["job", "run"], job: name });
  const [asks, setAsks] = useState<"trigger" | "pause" | "resume" | undefined>();
  const zoneOfJob = data.value?.schedules[0]?.timezone;
  useEffect(() => {
    jobZone.value = zoneOfJob;
    return () => {
      jobZone.value = undefined;
    };
  }, [zoneOfJob]);
  return (
    <Loaded data={data}>
      {(job) => (
        <>
          <Head title={job.name} sub={<><Status word={job.state} />{job.paused_at_ms != null && <> since <Time ms={job.paused_at_ms} /></>} {job.next_due_ms != null && <>· next due <Time ms={job.next_due_ms} ago /></>} {job.description !== undefined && job.description !== "" && <>· {job.description}</>} <Labels labels={job.labels} /></>}>
            {mayChange() && job.state !== "removed" && (
              <>
                <button type="button" onClick={() => setAsks(job.state === "paused" ? "resume" : "pause")}>{job.state === "paused" ? "Resume" : "Pause"}</button>
                <button type="button" class="main" onClick={() => setAsks("trigger")}>Run now</button>
              </>
            )}
          </Head>
          {job.problems.length > 0 && (
            <div class="note bad" role="alert">
              <strong>Its file has an error, so the definition before the edit is in force.</strong>
              {job.problems.map((problem, no) => <pre key={no} tabIndex={0}>{problem.rendered}</pre>)}
            </div>
          )}
          <div class="with-side">
            <div>
              <History name={job.name} dues={job.next_dues_ms} />
              <StepGraph job={job} />
            </div>
            <aside aria-label="About the job">
              <Schedule job={job} />
              <WhyAtForm name={job.name} />
              <Facts job={job} />
            </aside>
          </div>
          <FileText name={job.name} revision={job.revision} />
          {asks === "trigger" && <TriggerDialog job={job} onClose={() => setAsks(undefined)} />}
          {(asks === "pause" || asks === "resume") && (
            <Dialog title={`${asks === "pause" ? "Pause" : "Resume"} ${job.name}`} confirm={asks === "pause" ? "Pause" : "Resume"} onConfirm={() => post<void>(`/jobs/${job.name}/${asks}`)} onClose={() => { setAsks(undefined); data.reload(); }}>
              <p>{asks === "pause" ? "No due starts until it is resumed; each is counted as skipped. Runs that are on go on." : "Its schedule goes on from now."}</p>
            </Dialog>
          )}
        </>
      )}
    </Loaded>
  );
}

function Schedule({ job }: { job: JobDetail }): JSX.Element {
  return (
    <section class="panel">
      <h2>Schedule</h2>
      {job.schedules.length === 0 ? <p class="muted">It runs by hand, or when another run asks for it.</p> : (
        <ul class="plain schedules">{job.schedules.map((one, no) => <li key={no}>{one.action !== "start" && `${one.action}s runs: `}{one.description} <code title={one.timezone}>{one.text}</code></li>)}</ul>
      )}
      {job.schedules.length > 0 && (
        <>
          <h3>Next dues</h3>
          {job.next_dues_ms.length === 0 ? <p class="muted">{job.state === "paused" ? "None while it is paused." : "None."}</p> : (
            <ol class="dues">{job.next_dues_ms.map((due) => <li key={due}><Time ms={due} /> <span class="muted"><Time ms={due} ago /></span></li>)}</ol>
          )}
        </>
      )}
    </section>
  );
}

function Facts({ job }: { job: JobDetail }): JSX.Element {
  return (
    <section class="panel" id="definition">
      <h2>Definition</h2>
      <dl class="facts">
        <div><dt>File</dt><dd>{job.source === undefined || job.source === "" ? "–" : <><code>{job.source}</code> <a class="plain-link" href={`/try?job=${job.name}`}>Try a change</a></>}</dd></div>
        <div><dt>Revision</dt><dd>{job.revision}</dd></div>
        {job.policy != null && <>
          <div><dt>Due while it is active</dt><dd>{job.policy.overlap}</dd></div>
          <div><dt>Missed dues</dt><dd>{job.policy.misfire}{job.policy.catchup_window_ms > 0 && `, up to ${durationText(job.policy.catchup_window_ms)} back`}</dd></div>
          {job.policy.priority !== 0 && <div><dt>Priority</dt><dd>{job.policy.priority}</dd></div>}
        </>}
        {job.timeout_ms != null && <div><dt>Time limit</dt><dd>{durationText(job.timeout_ms)}</dd></div>}
        <div><dt>Runs kept</dt><dd>{job.history}</dd></div>
        {job.footprint != null && touches(job) !== "" && <div><dt>Touches</dt><dd>{touches(job)}</dd></div>}
      </dl>
    </section>
  );
}

/** The steps and what they wait for, as a picture and as a table. */
function StepGraph({ job }: { job: JobDetail }): JSX.Element {
  const hasEdges = job.steps.some((step) => step.depends.length > 0);
  const graph = useData<GraphAnswer>(hasEdges ? `/jobs/${job.name}/graph${query({ revision: job.revision })}` : undefined);
  const table = (
    <table><thead><tr><th>Step</th><th>Kind</th><th>After</th><th class="num">Retries</th></tr></thead>
      <tbody>{job.steps.map((step) => <tr key={step.name}><td class="name">{step.name}</td><td>{step.kind}</td><td>{step.depends.join(", ") || "–"}</td><td class="num">{step.retries}</td></tr>)}</tbody>
    </table>
  );
  return (
    <section class="panel">
      <h2>Steps</h2>
      {hasEdges ? <><Loaded data={graph}>{(answer) => <Graph graph={answer} />}</Loaded><details><summary>As a table</summary>{table}</details></> : table}
    </section>
  );
}

/** The file as it is on disk, shown when it is asked for. */
function FileText({ name, revision }: { name: string; revision: number }): JSX.Element {
  const [isOpen, setOpen] = useState(place.value.query.has("revision"));
  const data = useData<Definition>(isOpen ? `/jobs/${name}/definition` : undefined, { kinds: ["job", "problems"] });
  return (
    <details class="panel" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>File and revisions</summary>
      {isOpen && <><h3>Changes</h3><Revisions name={name} /><h3>File, revision {revision}</h3></>}
      {isOpen && <Loaded data={data}>{({ text }) => text == null ? <p class="muted">The file is gone.</p> : <pre tabIndex={0}>{text}</pre>}</Loaded>}
    </details>
  );
}

/** Why it ran or did not run at an instant. The question is part of the address. */
function WhyAtForm({ name }: { name: string }): JSX.Element {
  const at = place.value.query.get("at") ?? undefined;
  const [typed, setTyped] = useState(at === undefined ? "" : fullText(Number(at)).replace(" ", "T").slice(0, 16));
  const data = useData<WhyAt>(at === undefined ? undefined : `/jobs/${encodeURIComponent(name)}/why${query({ at })}`, { kinds: ["run", "skip", "job"], job: name });
  return (
    <section class="panel">
      <h2>Why, or why not</h2>
      <form class="acts" onSubmit={(event) => { event.preventDefault(); if (typed !== "") setQuery({ at: String(instantOf(typed)) }); }}>
        <label class="field"><span>At, in {zone.value}</span><input type="datetime-local" required value={typed} onInput={(event) => setTyped(event.currentTarget.value)} /></label>
        <button type="submit">Ask</button>
      </form>
      {at !== undefined && (
        <Loaded data={data}>
          {(why) => (
            <div aria-live="polite">
              <p><strong>{WORDS[why.outcome] ?? why.outcome}</strong> {sentence(why.explanation)}</p>
              {why.run != null && <p><Status word={why.run.status} /> <a href={`/runs/${why.run.id}`}>Run {why.run.id}</a>, due <Time ms={why.run.due_ms} /></p>}
              {why.skip != null && why.skip.count > 1 && <p class="muted">{why.skip.count} dues were skipped together, from <Time ms={why.skip.first_due_ms} /> to <Time ms={why.skip.last_due_ms} />.</p>}
              <p class="muted">The due before: <Time ms={why.due_before_ms} />. At or after: <Time ms={why.due_after_ms} />.</p>
            </div>
          )}
        </Loaded>
      )}
    </section>
  );
}

const WORDS: Record<string, string> = { run: "It ran.", skip: "It was skipped.", to_come: "It is to come.", no_due: "It had no due then.", unknown: "Nothing is recorded." };

function touches(job: JobDetail): string {
  const print = job.footprint;
  if (print == null) return "";
  const named = (word: string, keys: string[]): string[] => keys.map((key) => `${word} of ${key}`);
  const pools = Object.entries(print.capacity).map(([pool, units]) => `${units} of pool ${pool}`);
  return [...named("read", print.reads), ...named("write", print.writes), ...named("claim", print.claims), ...pools].join(", ");
}

function TriggerDialog({ job, onClose }: { job: JobDetail; onClose: () => void }): JSX.Element {
  const [values, setValues] = useState<Record<string, string>>({});
  const act = async (): Promise<void> => {
    const made = await post<Triggered>(`/jobs/${job.name}/trigger`, { params: values });
    go(`/runs/${made.run}`);
  };
  return (
    <Dialog title={`Run ${job.name} now`} confirm="Run now" onConfirm={act} onClose={onClose}>
      {job.params.length === 0 && <p>It takes no parameters.</p>}
      {job.params.map((param, no) => {
        const key = param.name ?? String(no + 1);
        return (
          <label class="field" key={key}>
            <span>{param.name ?? `Parameter ${no + 1}`}{param.required && " (needed)"}</span>
            <input value={values[key] ?? ""} placeholder={param.default} required={param.required} onInput={(event) => {
              const { [key]: _, ...rest } = values;
              setValues(event.currentTarget.value === "" ? rest : { ...values, [key]: event.currentTarget.value });
            }} />
          </label>
        );
      })}
    </Dialog>
  );
}

/** Every due of the job, newest first: a run or a reason. */
function History({ name, dues }: { name: string; dues: number[] }): JSX.Element {
  const before = place.value.query.get("before") ?? undefined;
  const data = useData<HistoryPage>(`/history${query({ job: name, before, limit: 200 })}`, { kinds: ["run", "skip"], job: name });
  return (
    <Loaded data={data}>
      {({ history, next }) => history.length === 0 ? <section class="panel"><h2>History</h2><Empty title="No due of this job has come yet." /></section> : (
        <>
          <section class="panel">
            <h2>Dues</h2>
            <ol class="strip" aria-label="Dues, the newest last">
              {[...history].slice(0, 160).reverse().map((item) => <li key={item.id}><Due item={item} /></li>)}
              {before === undefined && dues.filter((due) => due > newest(history)).map((due) => <li key={due}><span class="due s-to-come" role="img" aria-label={`${fullText(due)}: to come`} title={`${fullText(due)}: to come`} /></li>)}
            </ol>
            <p class="legend"><span class="k-ok">succeeded</span><span class="k-bad">failed or lost</span><span class="k-coming">skipped, with its reason</span><span class="k-late">to come</span></p>
          </section>
          <Histograms name={name} />
          <section class="panel">
            <h2>History</h2>
            <table class="cards">
              <thead><tr><th>Due</th><th>Outcome</th><th>Trigger</th><th class="num">Late</th><th class="num">Took</th><th>Why</th></tr></thead>
              <tbody>
                {history.slice(0, 50).map((item) => item.kind === "run" ? (
                  <tr key={item.id}>
                    <td class="name"><a class="row-link" href={`/runs/${item.id}`}><Time ms={item.due_ms} /></a></td>
                    <td data-name="Outcome"><Status word={item.status} /></td><td data-name="Trigger">{item.trigger}</td>
                    <td data-name="Late" class="num">{item.late_ms == null ? "–" : durationText(Math.max(0, item.late_ms))}</td>
                    <td data-name="Took" class="num">{took(item)}</td><td data-name="Why" class="why">{item.explanation}</td>
                  </tr>
                ) : (
                  <tr key={item.id}>
                    <td class="name">{item.count > 1 ? `${item.count} dues, ${shortText(item.first_due_ms)} to ${shortText(item.last_due_ms)}` : <Time ms={item.first_due_ms} />}</td>
                    <td data-name="Outcome"><Status word="skipped" /></td><td data-name="Trigger">{item.reason}</td><td class="num">–</td><td class="num">–</td><td data-name="Why" class="why">{item.explanation}</td>
                  </tr>
                ))}
              </tbody>
            </table>
            <nav class="pages" aria-label="Pages">
              {before !== undefined && <button type="button" onClick={() => setQuery({ before: undefined }, false)}>Newest</button>}
              {next != null && <button type="button" onClick={() => setQuery({ before: history[49]?.id ?? next }, false)}>Older</button>}
            </nav>
          </section>
        </>
      )}
    </Loaded>
  );
}

/** The newest due that is on record. */
const newest = (history: HistoryItem[]): number => Math.max(0, ...history.map((item) => (item.kind === "run" ? item.due_ms : item.last_due_ms)));

function Due({ item }: { item: HistoryItem }): JSX.Element {
  if (item.kind === "skip") {
    const text = `${item.count > 1 ? `${item.count} dues` : fullText(item.first_due_ms)}: ${item.explanation}`;
    return <span class="due s-skipped" role="img" aria-label={text} title={text} />;
  }
  const text = `${fullText(item.due_ms)}: ${item.status}`;
  return <a class={`due s-${item.status}`} href={`/runs/${item.id}`} aria-label={text} title={text} />;
}

const DAY = 86_400_000;
const DAYS = 30;

/** How late its runs began and how long they took, counted by the server. */
function Histograms({ name }: { name: string }): JSX.Element {
  // The window moves by the hour, and its address with it.
  const to = Math.ceil(clock.value / 3_600_000) * 3_600_000;
  const data = useData<Stats>(`/stats${query({ job: name, from: to - DAYS * DAY, to, step: "24h" })}`, { kinds: ["run"], job: name });
  return (
    <Loaded data={data}>
      {({ all, lateness_bounds_ms: lateness, duration_bounds_ms: durations }) => (
        <div class="two">
          <Histogram title="Lateness" counts={all.lateness} bounds={lateness} />
          <Histogram title="Duration" counts={all.durations} bounds={durations} />
        </div>
      )}
    </Loaded>
  );
}

/** Bars that are a table: each row says in numbers what its bar shows. */
function Histogram({ title, counts, bounds }: { title: string; counts: number[]; bounds: number[] }): JSX.Element {
  const top = Math.max(1, ...counts);
  const all = counts.reduce((sum, count) => sum + count, 0);
  const first = counts.findIndex((count) => count > 0);
  const last = counts.reduce((newest, count, no) => (count > 0 ? no : newest), 0);
  const shown = counts.map((count, no) => ({ count, no })).filter(({ no }) => no >= first && no <= last);
  return (
    <section class="panel">
      <h2>{title} <span class="muted">of {countText(all)} {all === 1 ? "run" : "runs"} in {DAYS} days</span></h2>
      {all === 0 ? <p class="muted">None yet.</p> : (
        <table class="histogram"><thead class="sr"><tr><th>At most</th><th>Runs</th></tr></thead>
          <tbody>{shown.map(({ count, no }) => <tr key={no}><th scope="row">{bounds[no] === undefined ? `> ${durationText(bounds.at(-1) ?? 0)}` : `≤ ${durationText(bounds[no])}`}</th><td><i style={{ width: `calc((100% - 64px) * ${count / top})` }} /><span>{countText(count)}</span></td></tr>)}</tbody>
        </table>
      )}
    </section>
  );
}
