import type { JSX } from "preact";

import type { Forecast as Answer, UpcomingPage } from "../api";
import { Heat } from "../bars";
import { query } from "../client";
import { useData } from "../data";
import { Empty, Head, Loaded, Time } from "../parts";
import { place, setQuery } from "../route";
import { clock, countText, dateText, fullText, timeText, zone } from "../time";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** The next day of the whole fleet, a cell for each minute. */
export function Forecast(): JSX.Element {
  const from = Math.floor(clock.value / HOUR) * HOUR;
  const data = useData<Answer>(`/forecast${query({ from, minutes: 1440 })}`, { kinds: ["job"], every: 60_000 });
  const at = Number(place.value.query.get("at") ?? Number.NaN);
  const hasPick = Number.isFinite(at);
  const dues = useData<UpcomingPage>(hasPick ? `/upcoming${query({ from: at - 1, to: at + MINUTE - 1, limit: 200 })}` : undefined);
  return (
    <>
      <Head title="Forecast" sub={`Runs that are due in the next 24 hours, by the minute, ${zone.value}. Paused jobs are left out.`} />
      <Loaded data={data}>
        {(answer) => {
          const rows: number[][] = [];
          answer.runs.forEach((count, no) => {
            const row = Math.floor(no / 60);
            (rows[row] ??= []).push(count);
          });
          const sums = rows.map((row) => row.reduce((all, one) => all + one, 0));
          const all = sums.reduce((sum, one) => sum + one, 0);
          if (all === 0) return <Empty title="Nothing is due in the next 24 hours.">Jobs without a schedule run by hand.</Empty>;
          const start = answer.from_ms;
          const pickedRow = Math.floor((at - start) / HOUR);
          const picked: [number, number] | undefined = hasPick && rows[pickedRow] !== undefined ? [pickedRow, Math.floor((at - start) / MINUTE) % 60] : undefined;
          const quiet = quietest(answer.runs);
          const hour = (row: number): string => timeText(start + row * HOUR).slice(0, 5);
          return (
            <>
              <p>{countText(all)} runs are due. The quietest hour begins at <strong>{fullText(start + quiet.at * MINUTE).slice(0, 16)}</strong> with {countText(quiet.count)} {quiet.count === 1 ? "run" : "runs"}.</p>
              <section class="panel">
                <div class="heat-grid">
                  <div class="heat-hours" aria-hidden="true">{rows.map((_, row) => <span key={row}>{hour(row)}</span>)}</div>
                  <Heat rows={rows} picked={picked} label={`Heat map of ${all} runs in the next 24 hours: a row for each hour, a cell for each minute`} onPick={(row, column) => setQuery({ at: String(start + row * HOUR + column * MINUTE) })} />
                </div>
                <p class="legend heat-legend">fewer {[0, 1, 2, 3, 4, 5].map((level) => <i key={level} class={`h${level}`} />)} more, at most {Math.max(...answer.runs)} in a minute</p>
                {answer.runs.length < 1440 && <p class="muted">The fleet is too dense to look further than {fullText(start + answer.runs.length * MINUTE)}.</p>}
              </section>
              {hasPick && (
                <section class="panel">
                  <h2>Due at {fullText(at).slice(0, 16)}</h2>
                  <Loaded data={dues}>
                    {({ upcoming }) => upcoming.length === 0 ? <Empty title="Nothing is due in this minute." /> : (
                      <ul class="lines">{upcoming.map((due) => <li key={`${due.due_ms} ${due.job}`}><Time ms={due.due_ms} /> <a class="row-link" href={`/jobs/${due.job}`}>{due.job}</a></li>)}</ul>
                    )}
                  </Loaded>
                </section>
              )}
              <details class="panel">
                <summary>As a table</summary>
                <table>
                  <thead><tr><th>Hour from</th><th class="num">Runs</th><th class="num">Most in a minute</th><th>Busiest minute</th></tr></thead>
                  <tbody>
                    {rows.map((row, no) => {
                      const most = Math.max(...row);
                      const minute = start + no * HOUR + row.indexOf(most) * MINUTE;
                      return <tr key={no}><td>{dateText(start + no * HOUR)} {hour(no)}</td><td class="num">{countText(sums[no] ?? 0)}</td><td class="num">{most}</td><td>{most === 0 ? "–" : <button type="button" class="link" onClick={() => setQuery({ at: String(minute) })}>{timeText(minute).slice(0, 5)}</button>}</td></tr>;
                    })}
                  </tbody>
                </table>
              </details>
            </>
          );
        }}
      </Loaded>
    </>
  );
}

/** The hour with the fewest runs, by its first minute. */
function quietest(runs: number[]): { at: number; count: number } {
  const width = Math.min(60, runs.length);
  let count = runs.slice(0, width).reduce((sum, one) => sum + one, 0);
  let best = { at: 0, count };
  for (let at = 1; at + width <= runs.length; at += 1) {
    count += (runs[at + width - 1] ?? 0) - (runs[at - 1] ?? 0);
    if (count < best.count) best = { at, count };
  }
  return best;
}
