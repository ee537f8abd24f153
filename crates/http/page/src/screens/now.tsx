import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import type { Forecast as ForecastAnswer, ProblemPage, RunPage, SkipPage, Stats } from "../api";
import { Columns, type Column } from "../bars";
import { query } from "../client";
import { useData } from "../data";
import { load } from "../live";
import { Empty, Head, Loaded, RowLink, Status, Time } from "../parts";
import { go } from "../route";
import { clock, countText, fullText, timeText, zone } from "../time";
import { RunTable } from "./runlist";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

export function Now(): JSX.Element {
  // The window moves by the minute: its address, and with it the request, changes no faster.
  const minute = Math.floor(clock.value / MINUTE) * MINUTE;
  const past = useData<Stats>(`/stats${query({ from: minute - HOUR, to: minute + MINUTE, step: "1m" })}`, { kinds: ["run", "skip"] });
  const coming = useData<ForecastAnswer>(`/forecast${query({ from: minute, minutes: 60 })}`, { kinds: ["job"] });
  const active = useData<RunPage>("/runs?status=running,waiting&limit=50", { kinds: ["run"], every: 15_000 });
  const bad = useData<RunPage>("/runs?status=failed,lost&limit=8", { kinds: ["run"] });
  const skips = useData<SkipPage>("/skips?limit=6", { kinds: ["skip"] });
  const problems = useData<ProblemPage>("/problems", { kinds: ["problems"] });
  const columns = useMemo(() => strip(minute, past.value, coming.value), [minute, past.value, coming.value]);
  const sums = columns.reduce((sum, one) => ({ ok: sum.ok + one.ok, bad: sum.bad + one.bad, coming: sum.coming + one.coming }), { ok: 0, bad: 0, coming: 0 });
  return (
    <>
      <Head title="Now" sub={`${fullText(clock.value)} ${zone.value}`} />
      {problems.value !== undefined && problems.value.problems.length > 0 && (
        <p class="note bad"><a href="/problems">{problems.value.problems.length} {problems.value.problems.length === 1 ? "problem" : "problems"} in job files</a></p>
      )}
      <section class="tiles" aria-label="Counts">
        <Tile name="Active" value={load.value?.active} to="/runs?status=running" />
        <Tile name="Waiting" value={load.value?.waiting} to="/runs?status=waiting" />
        <Tile name="Failed in the last hour" value={past.value === undefined ? undefined : sums.bad} to="/runs?status=failed,lost" isBad={sums.bad > 0} />
        <Tile name="Due in the next hour" value={coming.value === undefined ? undefined : sums.coming} to="/forecast" />
      </section>
      <section class="panel">
        <h2>One hour back, one hour ahead</h2>
        <Columns columns={columns} nowAt={60} onPick={(no) => go(minuteLink(minute + (no - 60) * MINUTE, 1))} label={`${sums.ok} runs went well and ${sums.bad} did not in the last hour; ${sums.coming} are due in the next`} />
        <div class="axis" aria-hidden="true">
          <span>{timeText(minute - HOUR).slice(0, 5)}</span><span>now</span><span>{timeText(minute + HOUR).slice(0, 5)}</span>
        </div>
        <p class="legend"><span class="k-ok">went well or is on</span><span class="k-bad">failed or lost</span><span class="k-coming">to come</span></p>
        <details>
          <summary>As a table</summary>
          <table>
            <thead><tr><th>Ten minutes from</th><th class="num">Well or on</th><th class="num">Failed or lost</th><th class="num">To come</th></tr></thead>
            <tbody>
              {[...Array(12).keys()].map((no) => {
                const part = columns.slice(no * 10, no * 10 + 10);
                const sum = (kind: keyof Column): number => part.reduce((all, one) => all + one[kind], 0);
                const from = minute - HOUR + no * 10 * MINUTE;
                return <tr key={no}><td><a class="plain-link" href={minuteLink(from, 10)}>{timeText(from).slice(0, 5)}</a></td><td class="num">{sum("ok")}</td><td class="num">{sum("bad")}</td><td class="num">{sum("coming")}</td></tr>;
              })}
            </tbody>
          </table>
        </details>
      </section>
      <section class="panel">
        <h2>Active and waiting</h2>
        <Loaded data={active}>{({ runs }) => (runs.length === 0 ? <Empty title="Nothing runs at this moment." /> : <RunTable runs={runs} hasJob />)}</Loaded>
      </section>
      <div class="two">
        <section class="panel">
          <h2>Latest failures</h2>
          <Loaded data={bad}>
            {({ runs }) => runs.length === 0 ? <Empty title="No run has failed." /> : (
              <ul class="lines">
                {runs.map((run) => (
                  <li key={run.id}><Status word={run.status} /> <RowLink to={`/runs/${run.id}`}>{run.job}</RowLink> <Time ms={run.due_ms} ago /><span class="muted line">{run.explanation}</span></li>
                ))}
              </ul>
            )}
          </Loaded>
        </section>
        <section class="panel">
          <h2>Latest skips</h2>
          <Loaded data={skips}>
            {({ skips: rows }) => rows.length === 0 ? <Empty title="Every due became a run." /> : (
              <ul class="lines">
                {rows.map((skip) => (
                  <li key={skip.id}><Status word="skipped" /> <RowLink to={`/jobs/${skip.job}`}>{skip.job}</RowLink> {skip.count > 1 && `${skip.count} dues`} <Time ms={skip.at_ms} ago /><span class="muted line">{skip.explanation}</span></li>
                ))}
              </ul>
            )}
          </Loaded>
        </section>
      </div>
    </>
  );
}

function Tile({ name, value, to, isBad }: { name: string; value: number | undefined; to: string; isBad?: boolean }): JSX.Element {
  return <a class={isBad ? "tile bad" : "tile"} href={to}><span>{name}</span><strong>{value === undefined ? "–" : countText(value)}</strong></a>;
}

/** Where the runs of some minutes are listed: those of the future are not runs yet. */
const minuteLink = (from: number, minutes: number): string => (from > Date.now() ? `/forecast?at=${from}` : `/runs?from=${from}&to=${from + minutes * MINUTE}`);

/** Two hours of minutes: what became of the past, how much is to come. */
function strip(minute: number, past: Stats | undefined, coming: ForecastAnswer | undefined): Column[] {
  const columns: Column[] = [...Array(120).keys()].map(() => ({ ok: 0, bad: 0, coming: 0 }));
  for (const { at_ms, statuses } of past?.steps ?? []) {
    const column = columns[Math.floor((at_ms - minute) / MINUTE) + 60];
    if (column === undefined) continue;
    const count = (...words: string[]): number => words.reduce((sum, word) => sum + (statuses[word] ?? 0), 0);
    column.bad = count("failed", "lost");
    column.ok = count("succeeded", "running", "retrying", "waiting", "stopped");
  }
  coming?.runs.forEach((count, no) => {
    const column = columns[60 + no];
    if (column !== undefined) column.coming = Math.max(0, count - column.ok - column.bad);
  });
  return columns;
}
