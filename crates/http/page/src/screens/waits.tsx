import type { JSX } from "preact";

import type { ConflictPage, RunPage } from "../api";
import { useData } from "../data";
import { Empty, Head, Loaded, RowLink, Time } from "../parts";

/** Who waits for what, and which jobs can exclude which. */
export function Waits(): JSX.Element {
  const waiting = useData<RunPage>("/runs?status=waiting&limit=200", { kinds: ["run"], every: 5000 });
  const conflicts = useData<ConflictPage>("/conflicts", { kinds: ["job"] });
  return (
    <>
      <Head title="Waits" sub="Runs that wait at this moment, and jobs that can exclude one another." />
      <section class="panel">
        <h2>Waiting now</h2>
        <Loaded data={waiting}>
          {({ runs }) => runs.length === 0 ? <Empty title="No run waits." /> : (
            <table class="cards">
              <thead><tr><th>Run</th><th>Job</th><th>Due</th><th>Waits for</th></tr></thead>
              <tbody>{runs.map((run) => <tr key={run.id}><td class="name mono"><RowLink to={`/runs/${run.id}`}>{run.id}</RowLink></td><td data-name="Job"><a href={`/jobs/${run.job}`}>{run.job}</a></td><td data-name="Due"><Time ms={run.due_ms} ago /></td><td data-name="Waits for" class="why">{run.explanation}</td></tr>)}</tbody>
            </table>
          )}
        </Loaded>
      </section>
      <section class="panel">
        <h2>Jobs that can exclude one another</h2>
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
    </>
  );
}
