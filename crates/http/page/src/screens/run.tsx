import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import type { JobDetail, LogPage, RunDetail, Why as WhyAnswer } from "../api";
import { mayChange, post } from "../client";
import { useData } from "../data";
import { Dialog, Head, Loaded, Status, Time, sentence } from "../parts";
import { place, setQuery } from "../route";
import { clock, durationText, jobZone, timeText } from "../time";
import { LogView } from "./log";
import { took } from "./runlist";

type Step = RunDetail["steps"][number];

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
            {mayChange() && run.ended && ["failed", "lost", "stopped"].includes(run.status) && <button type="button" class="main" onClick={() => setAsks({ act: "retry", id: run.id })}>Retry</button>}
          </Head>
          <Story run={run} />
          {!run.ended && <Reason run={run} />}
          <Steps run={run} />
          {run.children != null && run.children.length > 0 && (
            <section class="panel">
              <h2>Children</h2>
              <table class="cards">
                <thead><tr><th>Run</th><th>Job</th><th>Status</th><th>Executor</th><th><span class="sr">Retry</span></th></tr></thead>
                <tbody>
                  {run.children.map((child) => (
                    <tr key={child.id}>
                      <td class="name mono"><a class="row-link" href={`/runs/${child.id}`}>{child.id}</a></td>
                      <td data-name="Job">{child.job}</td><td data-name="Status"><Status word={child.status} /></td><td data-name="Executor">{child.executor ?? "–"}</td>
                      <td>{mayChange() && child.share != null && run.ended && ["failed", "lost", "stopped"].includes(child.status) && <button type="button" onClick={() => setAsks({ act: "retry", id: child.id })}>Retry share {child.share}</button>}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </section>
          )}
          <Logs run={run} />
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
    <section class="panel">
      <h2>Story</h2>
      <dl class="facts">
        <div><dt>Why it exists</dt><dd>{sentence(TRIGGERS[run.trigger] ?? run.trigger)}{run.parent != null && <> Asked for by <a href={`/runs/${run.parent}`}>{run.parent}</a>.</>}</dd></div>
        <div><dt>Due</dt><dd><Time ms={run.due_ms} /></dd></div>
        <div><dt>Promised</dt><dd><Time ms={run.promised_at_ms} /></dd></div>
        <div><dt>Started</dt><dd><Time ms={run.started_at_ms} />{run.late_ms != null && <span class="muted"> {durationText(Math.max(0, run.late_ms))} after its due</span>}</dd></div>
        <div><dt>Ended</dt><dd><Time ms={run.ended_at_ms} />{run.started_at_ms != null && <span class="muted"> {run.ended ? "took" : "so far"} {took(run)}</span>}</dd></div>
        <div><dt>Starts</dt><dd>{run.attempt} <span class="muted">under revision {run.revision}</span></dd></div>
        {params.length > 0 && <div><dt>Parameters</dt><dd>{params.map(([name, value]) => <code class="param" key={name}>{name}={value}</code>)}</dd></div>}
        {run.executor != null && <div><dt>Executor</dt><dd>{run.executor}</dd></div>}
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

function Steps({ run }: { run: RunDetail }): JSX.Element | null {
  if (run.steps.length === 0) return null;
  const starts = run.steps.flatMap((step) => (step.started_at_ms == null ? [] : [step.started_at_ms]));
  const from = Math.min(...starts, run.started_at_ms ?? Infinity);
  const to = Math.max(from + 1, run.ended_at_ms ?? clock.value);
  const share = (ms: number): number => Math.max(0, Math.min(100, ((ms - from) / (to - from)) * 100));
  const bar = (step: Step): JSX.Element | null => {
    if (step.started_at_ms == null) return null;
    const left = share(step.started_at_ms);
    return <i class={`bar s-${step.status}`} style={{ left: `${left}%`, width: `${Math.max(0.6, share(step.ended_at_ms ?? to) - left)}%` }} />;
  };
  return (
    <section class="panel">
      <h2>Steps</h2>
      <table class="cards steps">
        <thead><tr><th>Step</th><th>Status</th><th class="num">Attempt</th><th class="axis-cell"><span>{Number.isFinite(from) ? timeText(from) : ""}</span><span>{Number.isFinite(from) ? timeText(to) : ""}</span></th><th class="num">Took</th><th>Result</th></tr></thead>
        <tbody>
          {run.steps.map((step) => (
            <tr key={step.name}>
              <td class="name"><button type="button" class="link" onClick={() => setQuery({ step: step.name })}>{step.name}</button></td>
              <td data-name="Status"><Status word={step.status} /></td>
              <td data-name="Attempt" class="num">{step.attempt}{step.lost > 0 && ` (${step.lost} lost)`}</td>
              <td class="time-axis"><div>{bar(step)}</div></td>
              <td data-name="Took" class="num">{took(step)}</td>
              <td data-name="Result" class="why">{step.message ?? (step.exit_code == null ? "" : `exit code ${step.exit_code}`)}{step.output != null && step.output !== "" && <code class="param">{step.output}</code>}</td>
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
              <div class="chips" role="group" aria-label="Step">
                {names.map((name) => <button key={name} type="button" aria-pressed={name === step} onClick={() => setQuery({ step: name })}>{name}</button>)}
              </div>
              <LogView key={step} run={run.id} step={step} logs={logs.filter((log) => log.step === step)} ended={run.ended} />
            </>
          );
        }}
      </Loaded>
    </section>
  );
}
