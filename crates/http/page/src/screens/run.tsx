import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import type { JobDetail, LogPage, RunDetail, Why as WhyAnswer } from "../api";
import { mayChange, post } from "../client";
import { useData } from "../data";
import { Dialog, Head, Loaded, Status, Time, sentence } from "../parts";
import { place, setQuery } from "../route";
import { durationText, jobZone } from "../time";
import { LogView } from "./log";
import { took } from "./runlist";
import { Steps } from "./steps";

const IS_RETRIED = ["failed", "lost", "stopped"];

/** The story of a run on one screen. */
export function Run({ id }: { id: string }): JSX.Element {
  const whole = id.split(".")[0] ?? id;
  const data = useData<RunDetail>(`/runs/${encodeURIComponent(id)}`, { kinds: ["run"], run: whole });
  const [asks, setAsks] = useState<{ act: "stop" | "retry"; id: string } | undefined>();
  const isOpen = data.value !== undefined && !data.value.ended;
  // Steps change without a change of the run; while it is on they are looked at.
  useEffect(() => {
    if (!isOpen) return;
    const timer = window.setInterval(data.reload, 2000);
    return () => window.clearInterval(timer);
  }, [isOpen]);
  const job = useData<JobDetail>(data.value === undefined ? undefined : `/jobs/${data.value.job}`);
  const zoneOfJob = job.value?.schedules[0]?.timezone;
  useEffect(() => {
    jobZone.value = zoneOfJob;
    return () => {
      jobZone.value = undefined;
    };
  }, [zoneOfJob]);
  return (
    <Loaded data={data}>
      {(run) => (
        <>
          <Head title={<><a href={`/jobs/${run.job}`}>{run.job}</a> <span class="mono muted">{run.id}</span></>} sub={<><Status word={run.status} /> {sentence(run.explanation)}</>}>
            {mayChange() && !run.ended && <button type="button" class="bad" onClick={() => setAsks({ act: "stop", id: run.id })}>Stop</button>}
            {mayChange() && run.ended && IS_RETRIED.includes(run.status) && <button type="button" class="main" onClick={() => setAsks({ act: "retry", id: run.id })}>Retry</button>}
          </Head>
          <Story run={run} />
          {!run.ended && <Reason run={run} />}
          <div class="run-grid">
            <div>
              <Steps run={run} retry={mayChange() ? (share) => setAsks({ act: "retry", id: share }) : undefined} />
              <Children run={run} />
            </div>
            <Logs run={run} />
          </div>
          {asks !== undefined && (
            <Dialog title={`${asks.act === "stop" ? "Stop" : "Retry"} ${asks.id}`} confirm={asks.act === "stop" ? "Stop" : "Retry"} isBad={asks.act === "stop"} onConfirm={() => post<void>(`/runs/${asks.id}/${asks.act}`)} onClose={() => { setAsks(undefined); data.reload(); }}>
              <p>{asks.act === "stop" ? `The run of ${run.job} ends: its processes are told to stop, then killed.` : `What did not succeed in this run of ${run.job} runs again; what succeeded does not.`}</p>
            </Dialog>
          )}
        </>
      )}
    </Loaded>
  );
}

const TRIGGERS: Record<string, string> = {
  schedule: "its schedule named this instant",
  catch_up: "its due was missed and is made up for",
  restart: "the server started and it asks for that",
  manual: "somebody asked for it",
};

function Story({ run }: { run: RunDetail }): JSX.Element {
  const params = Object.entries(run.params ?? {});
  return (
    <section class="panel story" aria-label="Story">
      <dl class="facts">
        <div><dt>Why it exists</dt><dd>{sentence(TRIGGERS[run.trigger] ?? run.trigger)}{run.parent != null && <> Asked for by <a class="plain-link" href={`/runs/${run.parent}`}>{run.parent}</a>.</>}</dd></div>
        <div><dt>Due</dt><dd><Time ms={run.due_ms} /></dd></div>
        <div><dt>Promised</dt><dd><Time ms={run.promised_at_ms} /></dd></div>
        <div><dt>Started</dt><dd><Time ms={run.started_at_ms} />{run.late_ms != null && <span class="muted"> {durationText(Math.max(0, run.late_ms))} after its due</span>}</dd></div>
        <div><dt>Ended</dt><dd><Time ms={run.ended_at_ms} />{run.started_at_ms != null && <span class="muted"> {run.ended ? "took" : "so far"} {took(run)}</span>}</dd></div>
        <div><dt>Starts</dt><dd>{run.attempt} <span class="muted">under <a class="plain-link" href={`/jobs/${run.job}?revision=${run.revision}#definition`}>revision {run.revision}</a></span></dd></div>
        {run.executor != null && <div><dt>Executor</dt><dd>{run.executor}</dd></div>}
        {params.length > 0 && <div class="wide"><dt>Parameters</dt><dd>{params.map(([name, value]) => <code class="param" key={name}>{name}={value}</code>)}</dd></div>}
      </dl>
    </section>
  );
}

/** What an open run waits for, or holds. */
function Reason({ run }: { run: RunDetail }): JSX.Element | null {
  const data = useData<WhyAnswer>(`/runs/${run.id}/why`, { kinds: ["run"], every: 3000 });
  const why = data.value;
  if (why === undefined || (why.waits_for == null && (why.holds ?? []).length === 0)) return null;
  return (
    <section class="panel">
      <h2>{why.waits_for == null ? "Holds" : "Waits for"}</h2>
      {why.waits_for == null ? <ul class="plain">{(why.holds ?? []).map((held) => <li key={held}>{held}</li>)}</ul> : (
        <p>{sentence(why.explanation)} {why.waits_for.run != null && <a href={`/runs/${why.waits_for.run}`}>Show that run</a>} {why.waits_for.before > 0 && <span class="muted">{why.waits_for.before} wait before it.</span>}</p>
      )}
    </section>
  );
}

/** Runs that this run asked for; the shares of a broadcast stand with their step. */
function Children({ run }: { run: RunDetail }): JSX.Element | null {
  const children = (run.children ?? []).filter((child) => child.share == null);
  if (children.length === 0) return null;
  return (
    <section class="panel">
      <h2>Runs it asked for</h2>
      <table class="cards">
        <thead><tr><th>Run</th><th>Job</th><th>Status</th></tr></thead>
        <tbody>
          {children.map((child) => (
            <tr key={child.id}>
              <td class="name mono"><a class="row-link" href={`/runs/${child.id}`}>{child.id}</a></td>
              <td data-name="Job">{child.job}</td><td data-name="Status"><Status word={child.status} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Logs({ run }: { run: RunDetail }): JSX.Element {
  const data = useData<LogPage>(`/runs/${run.id}/logs`, { kinds: ["run"], run: run.id.split(".")[0], ...(run.ended ? {} : { every: 2000 }) });
  const wanted = place.value.query.get("step") ?? undefined;
  return (
    <section class="panel">
      <h2>Log</h2>
      <Loaded data={data}>
        {({ logs }) => {
          if (logs.length === 0) return <p class="muted">{run.ended ? "It printed nothing." : "Nothing is printed yet."}</p>;
          const names = [...new Set(logs.map((log) => log.step))];
          const failed = run.steps.find((step) => step.status === "failed" && names.includes(step.name))?.name;
          const step = wanted !== undefined && names.includes(wanted) ? wanted : (failed ?? names.at(-1) ?? "");
          return (
            <>
              {wanted !== undefined && !names.includes(wanted) && <p class="muted">Step {wanted} has printed nothing.</p>}
              {names.length > 1 && (
                <label class="log-step">Step{" "}
                  <select value={step} onChange={(event) => setQuery({ step: event.currentTarget.value })}>{names.map((name) => <option key={name}>{name}</option>)}</select>
                </label>
              )}
              <LogView key={step} run={run.id} step={step} logs={logs.filter((log) => log.step === step)} ended={run.ended} />
            </>
          );
        }}
      </Loaded>
    </section>
  );
}
