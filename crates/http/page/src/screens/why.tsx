import type { JSX } from "preact";

import type { HistoryItem, HistoryPage, RunPage, Stats } from "../api";
import { query } from "../client";
import { useData } from "../data";
import { Empty, Head, Loaded, Status, Time } from "../parts";
import { place, setQuery } from "../route";
import { clock, countText, shortText } from "../time";

const HOUR = 3_600_000;
const WINDOWS: { word: string; text: string; ms: number; step: string }[] = [
  { word: "hour", text: "the last hour", ms: HOUR, step: "5m" },
  { word: "day", text: "the last day", ms: 24 * HOUR, step: "1h" },
  { word: "week", text: "the last week", ms: 168 * HOUR, step: "24h" },
  { word: "month", text: "the last 30 days", ms: 720 * HOUR, step: "24h" },
];
const STATUSES = ["promised", "waiting", "running", "retrying", "succeeded", "failed", "lost", "stopped", "skipped"];
const ROWS = 200;

/** What became of every due, newest first: a run, or the reason why there is none. */
export function Why(): JSX.Element {
  const fields = place.value.query;
  const job = fields.get("job") ?? "";
  const only = fields.get("outcome") ?? "";
  const before = fields.get("before") ?? undefined;
  const frame = WINDOWS.find(({ word }) => word === fields.get("within")) ?? WINDOWS[1]!;
  // The window moves by the minute, and with it what is asked for.
  const to = Math.ceil(clock.value / 60_000) * 60_000;
  const from = to - frame.ms;
  const counts = useData<Stats>(`/stats${query({ job, from, to, step: frame.step })}`, { kinds: ["run", "skip"], job: job === "" ? undefined : job });
  // Runs are found by status, skips by reason; everything stands in the history.
  const isStatus = STATUSES.includes(only);
  const path = isStatus ? `/runs${query({ job, status: only, from, to, before, limit: ROWS })}` : `/history${query({ job, reason: only, from, to, before, limit: ROWS })}`;
  const data = useData<HistoryPage | RunPage>(path, { kinds: ["run", "skip"], job: job === "" ? undefined : job });
  return (
    <>
      <Head title="Why" sub="What became of every due: a run, or the reason why there is none.">
        <select aria-label="Within" value={frame.word} onChange={(event) => setQuery({ within: event.currentTarget.value, before: undefined })}>{WINDOWS.map(({ word, text }) => <option key={word} value={word}>{text}</option>)}</select>
        <input data-search type="search" placeholder="Only of this job" aria-label="Only of this job" value={job} onChange={(event) => setQuery({ job: event.currentTarget.value.trim(), before: undefined })} />
        <a class="button" href={`/api/v1${path}`} download="dues.json">Export</a>
      </Head>
      {counts.value !== undefined && <Outcomes stats={counts.value} only={only} />}
      <Loaded data={data}>
        {(answer) => {
          const rows: HistoryItem[] = "runs" in answer ? answer.runs.map((run) => ({ ...run, kind: "run" as const })) : answer.history;
          if (rows.length === 0) {
            return only !== "" ? <Empty title={`None of these dues ended as ${only.replaceAll("_", " ")}.`}><button type="button" onClick={() => setQuery({ outcome: undefined, before: undefined })}>Show all</button></Empty>
              : <Empty title={job === "" ? `No due came within ${frame.text}.` : `No due of ${job} has come yet.`} />;
          }
          return (
            <>
              <table class="cards">
                <thead><tr><th>Due</th><th>Job</th><th>Outcome</th><th>Why</th></tr></thead>
                <tbody>
                  {rows.map((item) => (
                    <tr key={item.id}>
                      <td class="name">{item.kind === "run" ? <a class="row-link" href={`/runs/${item.id}`}><Time ms={item.due_ms} /></a> : item.count > 1 ? `${item.count} dues, ${shortText(item.first_due_ms)} to ${shortText(item.last_due_ms)}` : <Time ms={item.first_due_ms} />}</td>
                      <td data-name="Job"><a href={`/jobs/${item.job}`}>{item.job}</a></td>
                      <td data-name="Outcome"><Status word={item.kind === "run" ? item.status : "skipped"} /></td>
                      <td data-name="Why" class="why">{item.explanation}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
              <nav class="pages" aria-label="Pages">
                {before !== undefined && <button type="button" onClick={() => setQuery({ before: undefined }, false)}>Newest</button>}
                {answer.next != null && <button type="button" onClick={() => setQuery({ before: answer.next ?? undefined }, false)}>Older</button>}
              </nav>
            </>
          );
        }}
      </Loaded>
    </>
  );
}

/** Every outcome with its count; a press shows these alone. */
function Outcomes({ stats, only }: { stats: Stats; only: string }): JSX.Element {
  // A run that was skipped after its promise counts with its reason.
  const counts = [...Object.entries(stats.all.statuses).filter(([word]) => word !== "skipped"), ...Object.entries(stats.all.reasons)].filter(([, count]) => count > 0).sort((a, b) => b[1] - a[1]);
  return (
    <div class="chips" role="group" aria-label="Outcome">
      {counts.map(([word, count]) => <button key={word} type="button" aria-pressed={word === only} onClick={() => setQuery({ outcome: word === only ? undefined : word, before: undefined })}>{word.replaceAll("_", " ")} <span class="count">{countText(count)}</span></button>)}
    </div>
  );
}
