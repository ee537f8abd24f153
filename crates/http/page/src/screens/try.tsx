// What a job file or a schedule would mean. Nothing is written.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import type { Checked, Definition, Preview, PreviewDue } from "../api";
import { ApiFailure, get, post, query } from "../client";
import { Empty, Failure, Head, Time } from "../parts";
import { place, setQuery } from "../route";
import { instantOf } from "../time";

const EXAMPLE = `schedule: "30 2 * * *"
timezone: Europe/Paris
steps:
  - name: hello
    run: echo hello
`;

/** How long after the last key the server is asked. */
const PAUSE_MS = 300;

/** Asks the server for what `input` gives, a moment after it last changed. */
function useAnswer<T>(input: string, ask: () => Promise<T>): { value: T | undefined; failure: ApiFailure | undefined } {
  const [state, setState] = useState<{ value: T | undefined; failure: ApiFailure | undefined }>({ value: undefined, failure: undefined });
  useEffect(() => {
    let isCurrent = true;
    const timer = window.setTimeout(() => {
      ask()
        .then((value) => isCurrent && setState({ value, failure: undefined }))
        .catch((error: unknown) => isCurrent && setState((old) => ({ value: old.value, failure: error as ApiFailure })));
    }, PAUSE_MS);
    return () => {
      isCurrent = false;
      window.clearTimeout(timer);
    };
  }, [input]);
  return state;
}

export function Try(): JSX.Element {
  const fields = place.value.query;
  const job = fields.get("job") ?? undefined;
  const isFile = fields.get("schedule") === null;
  return (
    <>
      <Head title="Try" sub="What a job file or a schedule would mean. Nothing is written.">
        <div class="chips tabs" role="group" aria-label="What to try">
          <button type="button" aria-pressed={isFile} onClick={() => setQuery({ schedule: undefined, timezone: undefined, from: undefined })}>Job file</button>
          <button type="button" aria-pressed={!isFile} onClick={() => setQuery({ schedule: "30 2 * * *", timezone: "Europe/Paris", job: undefined })}>Schedule</button>
        </div>
      </Head>
      {isFile ? <TryFile key={job} job={job} /> : <TrySchedule />}
    </>
  );
}

function TryFile({ job }: { job: string | undefined }): JSX.Element {
  const [text, setText] = useState(job === undefined ? EXAMPLE : "");
  useEffect(() => {
    if (job === undefined) return;
    get<Definition>(`/jobs/${encodeURIComponent(job)}/definition`)
      .then((definition) => setText(definition.text ?? ""))
      .catch(() => setText(EXAMPLE));
  }, [job]);
  const { value, failure } = useAnswer<Checked>(text, () => post("/spec/check", { text, name: job }));
  return (
    <div class="two try">
      <section class="panel">
        <label class="field">
          <span>Text of the file</span>
          <textarea data-search spellcheck={false} rows={22} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
      </section>
      <div aria-live="polite">
        {failure !== undefined && <Failure failure={failure} />}
        {value !== undefined && (
          <>
            <p class={value.ok ? "verdict s-succeeded" : "verdict s-failed"}><strong>{value.ok ? `✓ The server would take it as ${value.job ?? "a job"}.` : "✕ The server would not take it."}</strong></p>
            {value.problems.map((problem, no) => (
              <section class={`panel problem ${problem.severity}`} key={no}>
                <h2>{problem.line > 0 ? `Line ${problem.line}: ` : ""}{problem.message}</h2>
                <pre tabIndex={0}>{problem.rendered}</pre>
              </section>
            ))}
            {value.ok && (
              <section class="panel">
                <h2>What it does</h2>
                <dl class="facts">
                  <div><dt>Schedule</dt><dd>{value.schedules.length === 0 ? "by hand" : value.schedules.map((one) => `${one.action === "start" ? "" : `${one.action}s `}${one.description}`).join("; ")}</dd></div>
                  <div><dt>Steps</dt><dd>{value.steps.join(", ") || "–"}</dd></div>
                </dl>
                <h3>Next dues</h3>
                <Dues dues={value.dues} />
              </section>
            )}
          </>
        )}
      </div>
    </div>
  );
}

function TrySchedule(): JSX.Element {
  const fields = place.value.query;
  const [text, setText] = useState(fields.get("schedule") ?? "");
  const [zone, setZone] = useState(fields.get("timezone") ?? "UTC");
  const [from, setFrom] = useState(fields.get("from") ?? "");
  const { value, failure } = useAnswer<Preview>(`${text} ${zone} ${from}`, () => {
    setQuery({ schedule: text === "" ? " " : text, timezone: zone, from });
    // The start is a time of day in the schedule's own zone.
    const start = from === "" ? undefined : instantOf(from, zone);
    return get(`/schedules/preview${query({ text, timezone: zone, from: Number.isNaN(start) ? undefined : start, limit: 40 })}`);
  });
  return (
    <section class="panel">
      <div class="acts">
        <label class="field"><span>Schedule</span><input data-search class="mono" value={text} onInput={(event) => setText(event.currentTarget.value)} /></label>
        <label class="field"><span>Time zone</span><input value={zone} onInput={(event) => setZone(event.currentTarget.value)} /></label>
        <label class="field"><span>After, in that zone; now when empty</span><input type="datetime-local" value={from} onInput={(event) => setFrom(event.currentTarget.value)} /></label>
      </div>
      <div aria-live="polite">
        {failure !== undefined ? <Failure failure={failure} /> : value !== undefined && (
          <>
            <p class="verdict"><strong>{value.description}</strong></p>
            <Dues dues={value.dues} />
          </>
        )}
      </div>
    </section>
  );
}

function Dues({ dues }: { dues: PreviewDue[] }): JSX.Element {
  if (dues.length === 0) return <Empty title="It has no due to come." />;
  return (
    <table class="cards">
      <thead><tr><th>In its own zone</th><th>Here</th><th>Note</th></tr></thead>
      <tbody>{dues.map((due) => <tr key={due.due_ms}><td class="name mono"><time dateTime={due.due}>{due.local.replace(".000", "")}</time></td><td data-name="Here"><Time ms={due.due_ms} /></td><td data-name="Note" class="why">{due.note ?? ""}</td></tr>)}</tbody>
    </table>
  );
}
