// What a job file or a schedule would mean. Nothing is written.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import type { Definition, DefinitionSaved, Planned, Preview, PreviewDue } from "../api";
import { ApiFailure, get, mayChange, post, query, request } from "../client";
import { Changes } from "./revisions";
import { Dialog, Empty, Failure, Head, Time } from "../parts";
import { go, place, setQuery } from "../route";
import { countText, instantOf } from "../time";

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
      <Head title="Try" sub="What a job file or a schedule would mean. Nothing is written unless you say so.">
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
  const [name, setName] = useState(job ?? "");
  const [file, setFile] = useState<Definition>();
  const [isSaving, setSaving] = useState(false);
  const [saved, setSaved] = useState<DefinitionSaved>();
  const read = (): void => {
    if (job === undefined) return;
    get<Definition>(`/jobs/${encodeURIComponent(job)}/definition`)
      .then((definition) => {
        setFile(definition);
        setText(definition.text ?? "");
      })
      .catch(() => setText(EXAMPLE));
  };
  useEffect(read, [job]);
  const { value, failure } = useAnswer<Planned>(`${name} ${saved?.revision} ${text}`, () => post("/spec/plan", { text, name: name === "" ? undefined : name }));
  const isNew = job === undefined;
  const maySave = mayChange() && value?.ok === true && (isNew ? name !== "" && !value.exists : file?.writable === true && file.etag != null && text !== file.text);
  /** Only the file that was read is replaced, and a new one replaces none. */
  const save = async (): Promise<void> => {
    const condition: Record<string, string> = isNew ? { "If-None-Match": "*" } : { "If-Match": file?.etag ?? "" };
    const done = await request<DefinitionSaved>("PUT", `/api/v1/jobs/${encodeURIComponent(name)}/definition`, { text }, [], condition);
    setSaved(done);
    if (isNew) go(`/jobs/${done.job}`);
    else read();
  };
  return (
    <div class="two try">
      <section class="panel">
        {isNew && <label class="field"><span>Name of the job, to save it</span><input value={name} placeholder="report" onInput={(event) => setName(event.currentTarget.value.trim())} /></label>}
        <label class="field">
          <span>Text of the file</span>
          <textarea data-search spellcheck={false} rows={22} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        {mayChange() && (
          <div class="acts">
            <button type="button" class="main" disabled={!maySave} onClick={() => setSaving(true)}>{isNew ? "Create the job" : "Save the file"}</button>
            {!isNew && file !== undefined && !file.writable && <span class="muted">This server does not change job files.</span>}
            {saved !== undefined && <span role="status">Saved; revision {saved.revision} is in force.</span>}
          </div>
        )}
      </section>
      <div aria-live="polite">
        {failure !== undefined && <Failure failure={failure} />}
        {value !== undefined && <Plan plan={value} />}
      </div>
      {isSaving && (
        <Dialog title={isNew ? `Create ${name}` : `Save ${name}`} confirm={isNew ? "Create" : "Save"} onConfirm={save} onClose={() => setSaving(false)}>
          <p>{isNew ? "A file of this name is written into the folder of jobs, and the job is in force at once." : `${file?.source ?? "Its file"} is written anew, and is in force at once. Runs that are on keep the definition they began with.`}</p>
        </Dialog>
      )}
    </div>
  );
}

/** What the text would change. */
function Plan({ plan }: { plan: Planned }): JSX.Element {
  return (
    <>
      <p class={plan.ok ? "verdict s-succeeded" : "verdict s-failed"}><strong>{plan.ok ? `✓ The server would take it as ${plan.job ?? "a job"}.` : "✕ The server would not take it."}</strong></p>
      {plan.problems.map((problem, no) => (
        <section class={`panel problem ${problem.severity}`} key={no}>
          <h2>{problem.line > 0 ? `Line ${problem.line}: ` : ""}{problem.message}</h2>
          <pre tabIndex={0}>{problem.rendered}</pre>
        </section>
      ))}
      {plan.ok && plan.exists && (
        <section class="panel">
          <h2>What it changes</h2>
          {plan.changes.length === 0 ? <p class="muted">Nothing: it means what is in force.</p> : <Changes changes={plan.changes} />}
        </section>
      )}
      {plan.ok && (
        <section class="panel">
          <h2>Runs in the next 24 hours</h2>
          <Hours before={plan.exists ? plan.hours_before : undefined} after={plan.hours_after} />
          <h3>Next dues</h3>
          <Dues dues={plan.dues_after} known={plan.exists ? plan.dues_before : undefined} />
        </section>
      )}
      {plan.ok && plan.conflicts_gained.length + plan.conflicts_lost.length > 0 && (
        <section class="panel">
          <h2>Jobs that exclude it</h2>
          <ul class="lines">
            {plan.conflicts_gained.map((row) => <li key={`+${row.other}`}>From then on: <a class="row-link" href={`/jobs/${row.other}`}>{row.other}</a> <span class="muted">{row.touches} and its {row.other_touches}</span></li>)}
            {plan.conflicts_lost.map((row) => <li key={`-${row.other}`}>No more: <a class="row-link" href={`/jobs/${row.other}`}>{row.other}</a></li>)}
          </ul>
        </section>
      )}
    </>
  );
}

/** Bars of the hours, with the count before in a second column; a table that is its own picture. */
function Hours({ before, after }: { before: number[] | undefined; after: number[] }): JSX.Element {
  const top = Math.max(1, ...after, ...(before ?? []));
  const sum = (counts: number[]): number => counts.reduce((all, count) => all + count, 0);
  return (
    <>
      <p>{countText(sum(after))} runs{before !== undefined && <span class="muted">, {countText(sum(before))} by what is in force</span>}.</p>
      <details>
        <summary>By the hour</summary>
        <table class="histogram">
          <thead><tr><th>Hour</th><th>{before === undefined ? "Runs" : "Runs, and before"}</th></tr></thead>
          <tbody>{after.map((count, hour) => <tr key={hour}><th scope="row">+{hour} h</th><td><i style={{ width: `calc((100% - 110px) * ${count / top})` }} /><span>{countText(count)}{before !== undefined && before[hour] !== count && <span class="muted"> (was {countText(before[hour] ?? 0)})</span>}</span></td></tr>)}</tbody>
        </table>
      </details>
    </>
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

/** Dues in a table. Those that are not among the known ones are marked as new, and known ones that are gone as gone. */
function Dues({ dues: after, known }: { dues: PreviewDue[]; known?: PreviewDue[] | undefined }): JSX.Element {
  const last = Math.min(after.at(-1)?.due_ms ?? Infinity, known?.at(-1)?.due_ms ?? Infinity);
  const gone = (known ?? []).filter((due) => due.due_ms <= last && !after.some((one) => one.due_ms === due.due_ms));
  const dues = [...after, ...gone].sort((a, b) => a.due_ms - b.due_ms);
  const mark = (due: PreviewDue): string => {
    if (known === undefined || due.due_ms > last) return "";
    return gone.includes(due) ? "no more" : known.some((one) => one.due_ms === due.due_ms) ? "" : "new";
  };
  if (dues.length === 0) return <Empty title="It has no due to come." />;
  return (
    <table class="cards">
      <thead><tr><th>In its own zone</th><th>Here</th><th>Note</th></tr></thead>
      <tbody>{dues.map((due) => <tr key={due.due_ms} class={mark(due) === "no more" ? "gone" : undefined}><td class="name mono"><time dateTime={due.due}>{due.local.replace(".000", "")}</time></td><td data-name="Here"><Time ms={due.due_ms} /></td><td data-name="Note" class="why">{[mark(due), due.note].filter(Boolean).join(", ")}</td></tr>)}</tbody>
    </table>
  );
}
