import type { JSX } from "preact";

import type { HistoryItem, HistoryPage } from "../api";
import { query } from "../client";
import { useData } from "../data";
import { Empty, Head, Loaded, Status, Time } from "../parts";
import { place, setQuery } from "../route";
import { shortText } from "../time";

const outcome = (item: HistoryItem): string => (item.kind === "run" ? (item.skip_reason ?? item.status) : item.reason);

/** What became of every due, newest first: a run, or the reason why there is none. */
export function Why(): JSX.Element {
  const fields = place.value.query;
  const job = fields.get("job") ?? "";
  const only = fields.get("outcome") ?? "";
  const before = fields.get("before") ?? undefined;
  const data = useData<HistoryPage>(`/history${query({ job, before, limit: 500 })}`, { kinds: ["run", "skip"], job: job === "" ? undefined : job });
  return (
    <>
      <Head title="Why" sub="What became of every due: a run, or the reason why there is none.">
        <input data-search type="search" placeholder="Only of this job" aria-label="Only of this job" value={job} onChange={(event) => setQuery({ job: event.currentTarget.value.trim(), before: undefined })} />
      </Head>
      <Loaded data={data}>
        {({ history, next }) => {
          const counts = new Map<string, number>();
          for (const item of history) counts.set(outcome(item), (counts.get(outcome(item)) ?? 0) + (item.kind === "skip" ? item.count : 1));
          const shown = history.filter((item) => only === "" || outcome(item) === only).slice(0, 200);
          if (history.length === 0) return <Empty title={job === "" ? "No due has come yet." : `No due of ${job} has come yet.`} />;
          return (
            <>
              <div class="chips" role="group" aria-label="Outcome">
                {[...counts].sort((a, b) => b[1] - a[1]).map(([word, count]) => <button key={word} type="button" aria-pressed={word === only} onClick={() => setQuery({ outcome: word === only ? undefined : word })}>{word.replaceAll("_", " ")} {count}</button>)}
              </div>
              {shown.length === 0 ? <Empty title={`None of these dues ended as ${only}.`}><button type="button" onClick={() => setQuery({ outcome: undefined })}>Show all</button></Empty> : (
                <table class="cards">
                  <thead><tr><th>Due</th><th>Job</th><th>Outcome</th><th>Why</th></tr></thead>
                  <tbody>
                    {shown.map((item) => (
                      <tr key={item.id}>
                        <td class="name">{item.kind === "run" ? <a class="row-link" href={`/runs/${item.id}`}><Time ms={item.due_ms} /></a> : item.count > 1 ? `${item.count} dues, ${shortText(item.first_due_ms)} to ${shortText(item.last_due_ms)}` : <Time ms={item.first_due_ms} />}</td>
                        <td data-name="Job"><a href={`/jobs/${item.job}`}>{item.job}</a></td>
                        <td data-name="Outcome"><Status word={item.kind === "run" ? item.status : "skipped"} /></td>
                        <td data-name="Why" class="why">{item.explanation}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              )}
              <nav class="pages" aria-label="Pages">
                {before !== undefined && <button type="button" onClick={() => setQuery({ before: undefined }, false)}>Newest</button>}
                {next != null && <button type="button" onClick={() => setQuery({ before: next }, false)}>Older</button>}
              </nav>
            </>
          );
        }}
      </Loaded>
    </>
  );
}
