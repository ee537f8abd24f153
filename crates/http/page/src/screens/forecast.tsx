import type { JSX } from "preact";

import type { DueItem, Forecast as Answer, UpcomingPage } from "../api";
import { Heat } from "../bars";
import { query } from "../client";
import { useData, type Data } from "../data";
import { Empty, Head, Loaded, Time } from "../parts";
import { place, setQuery } from "../route";
import { clock, countText, dateText, fullText, timeText, zone } from "../time";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** Dues of a cell that are asked for. */
const DUES_MAX = 1000;
const JOBS_SHOWN = 10;

/** A day is a row for each hour and a cell for each minute; a week a row for each day and a cell for each quarter of an hour. */
interface Shape {
  days: number;
  rowMinutes: number;
  cellMinutes: number;
  text: string;
}
const SHAPES: Record<"day" | "week", Shape> = {
  day: { days: 1, rowMinutes: 60, cellMinutes: 1, text: "24 hours" },
  week: { days: 7, rowMinutes: 1440, cellMinutes: 15, text: "7 days" },
};

/** What the whole fleet has to do next. */
export function Forecast(): JSX.Element {
  const isWeek = place.value.query.get("span") === "week";
  return (
    <>
      <Head title="Forecast" sub={`Runs that are due, ${zone.value}. Paused jobs are left out.`}>
        <div class="chips tabs" role="group" aria-label="How far">
          <button type="button" aria-pressed={!isWeek} onClick={() => setQuery({ span: undefined, at: undefined })}>24 hours</button>
          <button type="button" aria-pressed={isWeek} onClick={() => setQuery({ span: "week", at: undefined })}>7 days</button>
        </div>
      </Head>
      {isWeek ? <Week /> : <Day />}
    </>
  );
}

/** The address changes with the hour, not with each second. */
function useForecast(minutes: number, step: string): Data<Answer> {
  const from = Math.floor(clock.value / HOUR) * HOUR;
  return useData<Answer>(`/forecast${query({ from, minutes, step })}`, { kinds: ["job"], every: 60_000 });
}

function Day(): JSX.Element {
  return <Span data={useForecast(1440, "1m")} shape={SHAPES.day} />;
}

function Week(): JSX.Element {
  return <Span data={useForecast(10_080, "15m")} shape={SHAPES.week} />;
}

function Span({ data, shape }: { data: Data<Answer>; shape: Shape }): JSX.Element {
  return (
    <Loaded data={data}>
      {(answer) => <HeatMap answer={answer} shape={shape} />}
    </Loaded>
  );
}

function HeatMap({ answer, shape }: { answer: Answer; shape: Shape }): JSX.Element {
  const { rowMinutes, cellMinutes } = shape;
  const at = Number(place.value.query.get("at") ?? Number.NaN);
  const start = answer.from_ms;
  const all = answer.runs.reduce((sum, count) => sum + count, 0);
  if (all === 0) return <Empty title={`Nothing is due in the next ${shape.text}.`}>Jobs without a schedule run by hand.</Empty>;
  const rows: number[][] = [];
  answer.runs.forEach((count, no) => {
    (rows[Math.floor((no * cellMinutes) / rowMinutes)] ??= []).push(count);
  });
  const instant = (row: number, cell: number): number => start + (row * rowMinutes + cell * cellMinutes) * MINUTE;
  const away = Math.floor((at - start) / MINUTE);
  const row = Math.floor(away / rowMinutes);
  const picked: [number, number] | undefined = away >= 0 && rows[row] !== undefined ? [row, Math.floor((away % rowMinutes) / cellMinutes)] : undefined;
  const quiet = quietest(answer.runs, 60 / cellMinutes);
  const name = (no: number): string => (shape.days === 1 ? timeText(instant(no, 0)).slice(0, 5) : dateText(instant(no, 0)).slice(5));
  const most = Math.max(...rows.flat());
  return (
    <>
      <p>{countText(all)} runs are due in the next {shape.text}. The quietest hour begins at <strong>{fullText(start + quiet.at * cellMinutes * MINUTE).slice(0, 16)}</strong> with {countText(quiet.count)} {quiet.count === 1 ? "run" : "runs"}.</p>
      <section class="panel">
        <div class={shape.days === 1 ? "heat-grid" : "heat-grid week"}>
          <div class="heat-hours" aria-hidden="true">{rows.map((_, no) => <span key={no}>{name(no)}</span>)}</div>
          <Heat rows={rows} picked={picked} label={`Heat map of ${all} runs in the next ${shape.text}: a row for each ${shape.days === 1 ? "hour, a cell for each minute" : "day, a cell for each quarter of an hour"}`} onPick={(no, cell) => setQuery({ at: String(instant(no, cell)) })} />
        </div>
        {shape.days > 1 && <div class="axis week-axis" aria-hidden="true">{[0, 6, 12, 18, 24].map((hour) => <span key={hour}>{timeText(start + hour * HOUR).slice(0, 5)}</span>)}</div>}
        <p class="legend heat-legend">fewer {[0, 1, 2, 3, 4, 5].map((level) => <i key={level} class={`h${level}`} />)} more, at most {countText(most)} in {cellMinutes === 1 ? "a minute" : `${cellMinutes} minutes`}</p>
        {answer.runs.length * cellMinutes < shape.days * 1440 && <p class="muted">The fleet is too dense to look further than {fullText(start + answer.runs.length * cellMinutes * MINUTE)}.</p>}
      </section>
      {Number.isFinite(at) && <Cell from={at} minutes={cellMinutes} />}
      <details class="panel">
        <summary>As a table</summary>
        <table>
          <thead><tr><th>From</th><th class="num">Runs</th><th class="num">Most in a cell</th><th>Busiest</th></tr></thead>
          <tbody>
            {rows.map((cells, no) => {
              const top = Math.max(...cells);
              const when = instant(no, cells.indexOf(top));
              return <tr key={no}><td>{dateText(instant(no, 0))} {timeText(instant(no, 0)).slice(0, 5)}</td><td class="num">{countText(cells.reduce((sum, count) => sum + count, 0))}</td><td class="num">{countText(top)}</td><td>{top === 0 ? "–" : <button type="button" class="link" onClick={() => setQuery({ at: String(when) })}>{timeText(when).slice(0, 5)}</button>}</td></tr>;
            })}
          </tbody>
        </table>
      </details>
    </>
  );
}

/** What is due within a cell: the busiest jobs, then each due. */
function Cell({ from, minutes }: { from: number; minutes: number }): JSX.Element {
  const dues = useData<UpcomingPage>(`/upcoming${query({ from: from - 1, to: from + minutes * MINUTE - 1, limit: DUES_MAX })}`);
  return (
    <section class="panel">
      <h2>Due {minutes === 1 ? "at" : `within ${minutes} minutes of`} {fullText(from).slice(0, 16)}</h2>
      <Loaded data={dues}>
        {({ upcoming }) => upcoming.length === 0 ? <Empty title="Nothing is due then any more." /> : (
          <>
            {upcoming.length > JOBS_SHOWN && <Busiest dues={upcoming} />}
            <ul class="lines">{upcoming.slice(0, 200).map((due) => <li key={`${due.due_ms} ${due.job}`}><Time ms={due.due_ms} /> <a class="row-link" href={`/jobs/${due.job}`}>{due.job}</a></li>)}</ul>
            {upcoming.length > 200 && <p class="muted">The first 200 of {upcoming.length === DUES_MAX ? "more than " : ""}{countText(upcoming.length)}.</p>}
          </>
        )}
      </Loaded>
    </section>
  );
}

function Busiest({ dues }: { dues: DueItem[] }): JSX.Element {
  const counts: Record<string, number> = {};
  for (const { job } of dues) counts[job] = (counts[job] ?? 0) + 1;
  const top = Object.entries(counts).sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).slice(0, JOBS_SHOWN);
  return <p class="busiest">Most: {top.map(([job, count]) => <a key={job} class="label" href={`/jobs/${job}`}>{job} <span class="count">{countText(count)}</span></a>)}</p>;
}

/** The hour with the fewest runs, by its first cell. */
function quietest(runs: number[], hour: number): { at: number; count: number } {
  const width = Math.min(hour, runs.length);
  let count = runs.slice(0, width).reduce((sum, one) => sum + one, 0);
  let best = { at: 0, count };
  for (let at = 1; at + width <= runs.length; at += 1) {
    count += (runs[at + width - 1] ?? 0) - (runs[at - 1] ?? 0);
    if (count < best.count) best = { at, count };
  }
  return best;
}
