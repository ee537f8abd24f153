// The revisions of a job, and what changed from one to the next.
import type { JSX } from "preact";

import type { DefinitionDiff, MeaningChange, Revisions as Answer } from "../api";
import { query } from "../client";
import { useData } from "../data";
import { Loaded } from "../parts";
import { place, setQuery } from "../route";

export function Revisions({ name }: { name: string }): JSX.Element {
  const data = useData<Answer>(`/jobs/${encodeURIComponent(name)}/revisions`, { kinds: ["job"], job: name });
  return (
    <Loaded data={data}>
      {({ revisions, revision }) => revisions.length < 2 ? <p class="muted">Revision {revision} is the only one whose definition is still there.</p> : <Diff name={name} revisions={revisions} newest={revision} />}
    </Loaded>
  );
}

function Diff({ name, revisions, newest }: { name: string; revisions: number[]; newest: number }): JSX.Element {
  const asked = Number(place.value.query.get("revision"));
  const others = revisions.filter((one) => one !== newest);
  const from = others.includes(asked) ? asked : (others.at(-1) ?? newest);
  const data = useData<DefinitionDiff>(`/jobs/${encodeURIComponent(name)}/diff${query({ from, to: newest })}`);
  return (
    <>
      <label>From revision <select value={from} onChange={(event) => setQuery({ revision: event.currentTarget.value })}>{others.map((one) => <option key={one} value={one}>{one}</option>)}</select> to {newest}</label>
      <Loaded data={data}>{({ changes }) => changes.length === 0 ? <p class="muted">They mean the same.</p> : <Changes changes={changes} />}</Loaded>
    </>
  );
}

/** What a definition means otherwise, place by place. */
export function Changes({ changes }: { changes: MeaningChange[] }): JSX.Element {
  return (
    <table class="cards">
      <thead><tr><th>Where</th><th>Before</th><th>After</th></tr></thead>
      <tbody>{changes.slice(0, 200).map((change) => <tr key={change.path}><td class="name mono">{change.path}</td><td data-name="Before">{change.before == null ? <span class="muted">–</span> : <code>{change.before}</code>}</td><td data-name="After">{change.after == null ? <span class="muted">–</span> : <code>{change.after}</code>}</td></tr>)}</tbody>
    </table>
  );
}
