// The steps of a run on one time axis, with the shares of a broadcast below their step.
import { Fragment, type JSX } from "preact";

import type { Graph as GraphAnswer, RunDetail } from "../api";
import { plain } from "../ansi";
import { query } from "../client";
import { useData } from "../data";
import { Graph } from "../graph";
import { MARKS } from "../parts";
import { place, setQuery } from "../route";
import { clock, durationText, fullText, timeText } from "../time";
import { took } from "./runlist";

type Step = RunDetail["steps"][number];
type Share = NonNullable<Step["executors"]>[number];

/** Shares that are listed; the sums stand with the step. */
const SHARES_MAX = 200;
const IS_RETRIED = ["failed", "lost", "stopped"];

interface Props {
  run: RunDetail;
  /** Asks for a retry of a share; undefined for those who may only look. */
  retry: ((share: string) => void) | undefined;
}

export function Steps({ run, retry }: Props): JSX.Element | null {
  const shares = run.steps.flatMap((step) => step.executors ?? []);
  const starts = [...run.steps.map((step) => step.started_at_ms), ...shares.map((share) => share.ordered_at_ms), run.started_at_ms].filter((at) => at != null);
  const begun = starts.length === 0 ? undefined : Math.min(...starts);
  const to = run.ended_at_ms ?? Math.max(clock.value, ...starts);
  // A wait before the start is part of the story when it can be seen.
  const waited = begun === undefined ? 0 : begun - run.due_ms;
  const hasWait = begun !== undefined && waited > 1000 && waited > (to - begun) / 50;
  const from = hasWait ? run.due_ms : (begun ?? run.due_ms);
  const scale = (ms: number): number => Math.max(0, Math.min(100, ((ms - from) / Math.max(1, to - from)) * 100));
  const bar = (status: string, start: number | null | undefined, end: number | null | undefined): JSX.Element | null => {
    if (start == null) return null;
    const left = Math.min(99.2, scale(start));
    const text = `${fullText(start)} to ${end == null ? "now" : timeText(end)}`;
    return <i class={`bar s-${status}`} title={text} style={{ left: `${left}%`, width: `${Math.max(0.8, scale(end ?? to) - left)}%` }} />;
  };
  const wanted = place.value.query.get("step");
  // Of the definition that the run was promised under, not of the newest.
  const graph = useData<GraphAnswer>(run.steps.length > 1 ? `/jobs/${run.job}/graph${query({ revision: run.revision })}` : undefined).value;
  if (run.steps.length === 0) return null;
  const statuses = new Map(run.steps.map((step) => [step.name, step.status]));
  return (
    <section class="panel">
      <h2>Steps</h2>
      <table class="steps">
        <thead><tr><th>Step</th><th class="axis-cell"><span>{timeText(from)}</span><span>+{durationText(to - from)}</span></th><th class="num">Took</th></tr></thead>
        <tbody>
          {hasWait && <tr class="wait"><td class="name muted">waited</td><td class="time-axis"><div>{bar("waiting", run.due_ms, begun)}</div></td><td class="num">{durationText(waited)}</td></tr>}
          {run.steps.map((step) => (
            <Fragment key={step.name}>
              <tr class={step.name === wanted ? "picked" : undefined}>
                <td class="name">
                  <button type="button" class="link row-link" title={`Show the log of ${step.name}`} onClick={() => setQuery({ step: step.name })}>
                    <span class={`status s-${step.status}`}><span aria-hidden="true">{MARKS[step.status] ?? "·"}</span></span> {step.name}
                  </button>
                  <span class="line muted">{resultOf(step)}</span>
                  {step.output != null && step.output !== "" && <details class="output"><summary>output</summary><pre tabIndex={0}>{plain(step.output)}</pre></details>}
                </td>
                <td class="time-axis"><div>{bar(step.status, step.started_at_ms, step.ended_at_ms)}</div></td>
                <td class="num">{took(step)}</td>
              </tr>
              {(step.executors ?? []).slice(0, SHARES_MAX).map((share) => (
                <tr key={`${step.name} ${share.index} ${share.attempt}`} class="share">
                  <td class="name">
                    <span class={`status s-${share.status}`}><span aria-hidden="true">{MARKS[share.status] ?? "·"}</span></span> {share.total > 1 ? `share ${share.index} ` : ""}<span class="muted">on {share.address}{share.attempt > 1 && `, attempt ${share.attempt}`}</span>
                    <span class="line muted">{share.status}{share.message != null && `: ${share.message}`}</span>
                    {retry !== undefined && run.ended && share.total > 1 && IS_RETRIED.includes(share.status) && <ShareRetry run={run} share={share} retry={retry} />}
                  </td>
                  <td class="time-axis"><div>{bar(share.status, share.ordered_at_ms, share.ended_at_ms)}</div></td>
                  <td class="num">{share.duration_ms == null ? "–" : durationText(share.duration_ms)}</td>
                </tr>
              ))}
            </Fragment>
          ))}
        </tbody>
      </table>
      {graph !== undefined && graph.edges.length > 0 && (
        <>
          <h3>Graph</h3>
          <Graph graph={graph} statuses={statuses} picked={wanted ?? undefined} onPick={(name) => setQuery({ step: name })} />
        </>
      )}
    </section>
  );
}

function ShareRetry({ run, share, retry }: { run: RunDetail; share: Share; retry: (id: string) => void }): JSX.Element | null {
  const child = run.children?.find((one) => one.share === share.index);
  return child === undefined ? null : <button type="button" onClick={() => retry(child.id)}>Retry share {share.index}</button>;
}

/** The status in words, with what the step said of itself. */
function resultOf(step: Step): string {
  const end = step.message ?? (step.exit_code == null || step.status === "succeeded" ? undefined : `exit code ${step.exit_code}`);
  const tries = step.attempt > 1 && `attempt ${step.attempt}${step.lost > 0 ? `, ${step.lost} lost` : ""}`;
  return [step.status, tries, end].filter(Boolean).join(" · ");
}
