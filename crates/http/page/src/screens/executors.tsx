import type { JSX } from "preact";

import type { ExecutorPage } from "../api";
import { useData } from "../data";
import { Empty, Head, Labels, Loaded, Time } from "../parts";
import { durationText } from "../time";

export function Executors(): JSX.Element {
  const data = useData<ExecutorPage>("/executors", { every: 5000 });
  return (
    <>
      <Head title="Executors" sub="Processes elsewhere that run steps, by group." />
      <Loaded data={data}>
        {({ groups }) => groups.length === 0 ? (
          <Empty title="No executor is there.">
            <p>Steps without a group run on the server itself. <code>cadran worker</code> starts an executor on another machine.</p>
          </Empty>
        ) : (
          <>
            {groups.map((group) => (
              <section class="panel" key={group.name}>
                <h2>{group.name} <span class="muted">{group.executors.length} {group.executors.length === 1 ? "executor" : "executors"}</span></h2>
                {group.executors.length === 0 ? <Empty title="Nobody of this group is there." /> : (
                  <table class="cards">
                    <thead><tr><th>Address</th><th>There since</th><th>Last heard of</th><th>Labels</th></tr></thead>
                    <tbody>{group.executors.map((one) => <tr key={one.address}><td class="name mono">{one.address}</td><td data-name="There since"><Time ms={one.since_ms} /></td><td data-name="Last heard of">{one.silent_ms == null ? "–" : `${durationText(one.silent_ms)} ago`}</td><td data-name="Labels"><Labels labels={one.labels} /></td></tr>)}</tbody>
                  </table>
                )}
              </section>
            ))}
          </>
        )}
      </Loaded>
    </>
  );
}
