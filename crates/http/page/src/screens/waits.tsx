import type { JSX } from "preact";

import type { ConflictPage, WaitItem, WaitPage } from "../api";
import { query } from "../client";
import { useData } from "../data";
import { Empty, Head, Loaded, Time } from "../parts";
import { place, setQuery } from "../route";

/** Who waits for what, and which jobs can exclude which. */
export function Waits(): JSX.Element {
  const waiting = useData<WaitPage>("/waits", { kinds: ["run"], every: 5000 });
  return (
    <>
      <Head title="Waits" sub="Runs that wait at this moment, below what is in their way, and jobs that can exclude one another." />
      <section class="panel">
        <h2>Waiting now</h2>
        <Loaded data={waiting}>
          {({ waits, cut }) => waits.length === 0 ? <Empty title="No run waits." /> : <><Forest waits={waits} />{cut && <p class="muted">There are more than are listed.</p>}</>}
        </Loaded>
      </section>
      <Conflicts />
    </>
  );
}

/** What is in the way of a run: another run, or a thing such as free slots. */
const inTheWay = (wait: WaitItem): string => wait.waits_for.run ?? wait.waits_for.key ?? wait.waits_for.kind;

/** The graph of who waits for whom as an indented list: each run stands below the one in its way. */
function Forest({ waits }: { waits: WaitItem[] }): JSX.Element {
  const below = new Map<string, WaitItem[]>();
  for (const wait of waits) below.set(inTheWay(wait), [...(below.get(inTheWay(wait)) ?? []), wait]);
  const ids = new Set(waits.map((wait) => wait.run));
  const roots = [...below.keys()].filter((name) => !ids.has(name));
  // A run waits for one thing at a time, so below the roots each stands once.
  const branch = (name: string, depth: number): JSX.Element | null => {
    const rows = below.get(name);
    if (rows === undefined || depth > waits.length) return null;
    const sorted = [...rows].sort((a, b) => a.waits_for.before - b.waits_for.before);
    return (
      <ul>
        {sorted.map((wait) => (
          <li key={wait.run}>
            <a class="row-link" href={`/runs/${wait.run}`}>{wait.job}</a> <span class="mono muted">{wait.run}</span> <span class="muted"><Time ms={wait.since_ms} ago />{wait.waits_for.before > 0 && `, ${wait.waits_for.before} before it`}{wait.waits_for.ticket && ", and is not passed any more"}</span>
            <span class="line muted" title={wait.explanation}>{wait.waits_for.key == null ? wait.explanation : `waits for ${wait.waits_for.wanted ?? "use"} of ${wait.waits_for.key}`}</span>
            {branch(wait.run, depth + 1)}
          </li>
        ))}
      </ul>
    );
  };
  return (
    <div class="forest">
      {roots.map((name) => {
        const one = below.get(name)?.[0]?.waits_for;
        return (
          <div key={name}>
            <p class="root">{one?.run != null ? <><a href={`/runs/${one.run}`}>{one.job ?? one.run}</a> <span class="mono muted">{one.run}</span></> : <strong>{name}</strong>}</p>
            {branch(name, 0)}
          </div>
        );
      })}
    </div>
  );
}

function Conflicts(): JSX.Element {
  const job = place.value.query.get("job") ?? "";
  const conflicts = useData<ConflictPage>(`/conflicts${query({ job })}`, { kinds: ["job"] });
  return (
    <section class="panel">
      <header class="head in-panel"><h2>Jobs that can exclude one another</h2><input data-search type="search" placeholder="Only of this job" aria-label="Only of this job" value={job} onChange={(event) => setQuery({ job: event.currentTarget.value.trim() })} /></header>
      <Loaded data={conflicts}>
        {({ conflicts: rows, cut }) => rows.length === 0 ? <Empty title="No job says that it touches what another touches.">Jobs say so with <code>footprint</code> in their file.</Empty> : (
          <>
            <table class="cards">
              <thead><tr><th>Job</th><th>Touches</th><th>Excludes</th><th>Which touches</th><th>When</th></tr></thead>
              <tbody>{rows.slice(0, 500).map((row, no) => <tr key={no}><td class="name"><a class="row-link" href={`/jobs/${row.job}`}>{row.job}</a></td><td data-name="Touches">{row.touches}</td><td data-name="Excludes"><a href={`/jobs/${row.other}`}>{row.other === row.job ? "its own runs" : row.other}</a></td><td data-name="Which touches">{row.other_touches}</td><td data-name="When">{row.by_params ? "for some parameters" : "always"}</td></tr>)}</tbody>
            </table>
            {(cut || rows.length > 500) && <p class="muted">There are more than are listed.</p>}
          </>
        )}
      </Loaded>
    </section>
  );
}
