import type { JSX } from "preact";

import type { RunPage } from "../api";
import { query } from "../client";
import { useData } from "../data";
import { Empty, Head, Loaded, Time } from "../parts";
import { place, setQuery } from "../route";
import { RunTable } from "./runlist";

/** Filters that are asked for less often. */
const MORE: { name: string; text: string; example: string }[] = [
  { name: "trigger", text: "Trigger", example: "schedule, manual" },
  { name: "label", text: "Label", example: "team:core" },
  { name: "param", text: "Parameter", example: "DAY:2026-01-31" },
  { name: "executor", text: "Executors", example: "local" },
  { name: "late_over", text: "Later than", example: "5s" },
  { name: "duration_over", text: "Longer than", example: "10m" },
];

const STATUSES = ["running", "waiting", "promised", "succeeded", "failed", "lost", "stopped", "skipped"];

export function Runs(): JSX.Element {
  const fields = place.value.query;
  const status = fields.get("status") ?? "";
  const job = fields.get("job") ?? "";
  const before = fields.get("before") ?? undefined;
  const from = fields.get("from") ?? undefined;
  const to = fields.get("to") ?? undefined;
  const more = Object.fromEntries(MORE.map(({ name }) => [name, fields.get(name) ?? ""]));
  const hasMore = MORE.some(({ name }) => more[name] !== "");
  const hasFilter = status !== "" || job !== "" || hasMore || from !== undefined || to !== undefined;
  const drop = (): void => setQuery({ status: undefined, job: undefined, from: undefined, to: undefined, before: undefined, ...Object.fromEntries(MORE.map(({ name }) => [name, undefined])) });
  const data = useData<RunPage>(`/runs${query({ status, job, from, to, ...more, before, limit: 100 })}`, { kinds: ["run"], job: job === "" ? undefined : job });
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
      <details class="more" open={hasMore}>
        <summary>More filters</summary>
        <div class="more-fields">
          {MORE.map(({ name, text, example }) => (
            <label class="field" key={name}><span>{text}</span><input value={more[name]} placeholder={example} onChange={(event) => setQuery({ [name]: event.currentTarget.value.trim(), before: undefined })} /></label>
          ))}
        </div>
      </details>
      <Loaded data={data}>
        {({ runs, next }) =>
          runs.length === 0 ? (
            <Empty title={hasFilter ? "No run is like this." : "Nothing has run yet."}>
              {hasFilter && <button type="button" onClick={drop}>Drop the filters</button>}
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
