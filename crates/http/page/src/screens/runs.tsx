import type { JSX } from "preact";

import type { RunPage } from "../api";
import { query } from "../client";
import { useData } from "../data";
import { Empty, Head, Loaded, Time } from "../parts";
import { place, setQuery } from "../route";
import { RunTable } from "./runlist";

const STATUSES = ["running", "waiting", "promised", "succeeded", "failed", "lost", "stopped", "skipped"];

export function Runs(): JSX.Element {
  const fields = place.value.query;
  const status = fields.get("status") ?? "";
  const job = fields.get("job") ?? "";
  const before = fields.get("before") ?? undefined;
  const from = fields.get("from") ?? undefined;
  const to = fields.get("to") ?? undefined;
  const data = useData<RunPage>(`/runs${query({ status, job, from, to, before, limit: 100 })}`, { kinds: ["run"], job: job === "" ? undefined : job });
  const picked = status === "" ? [] : status.split(",");
  const toggle = (word: string): void => {
    const next = picked.includes(word) ? picked.filter((one) => one !== word) : [...picked, word];
    setQuery({ status: next.join(","), before: undefined });
  };
  return (
    <>
      <Head title="Runs">
        <input data-search type="search" placeholder="Only of this job" aria-label="Only of this job" value={job} onChange={(event) => setQuery({ job: event.currentTarget.value.trim(), before: undefined })} />
      </Head>
      {(from !== undefined || to !== undefined) && (
        <p class="chips">
          <span>Due {from !== undefined && <>from <Time ms={Number(from)} /> </>}{to !== undefined && <>to <Time ms={Number(to)} /></>}</span>
          <button type="button" onClick={() => setQuery({ from: undefined, to: undefined, before: undefined })}>Any time</button>
        </p>
      )}
      <div class="chips" role="group" aria-label="Status">
        {STATUSES.map((word) => (
          <button key={word} type="button" aria-pressed={picked.includes(word)} onClick={() => toggle(word)}>{word}</button>
        ))}
      </div>
      <Loaded data={data}>
        {({ runs, next }) =>
          runs.length === 0 ? (
            <Empty title={status === "" && job === "" ? "Nothing has run yet." : "No run is like this."}>
              {(status !== "" || job !== "") && <button type="button" onClick={() => setQuery({ status: undefined, job: undefined, before: undefined })}>Drop the filters</button>}
            </Empty>
          ) : (
            <>
              <RunTable runs={runs} hasJob />
              <nav class="pages" aria-label="Pages">
                {before !== undefined && <button type="button" onClick={() => setQuery({ before: undefined }, false)}>Newest</button>}
                {next != null && <button type="button" onClick={() => setQuery({ before: next }, false)}>Older</button>}
              </nav>
            </>
          )
        }
      </Loaded>
    </>
  );
}
