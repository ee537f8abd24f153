import type { JSX } from "preact";

import type { ProblemPage } from "../api";
import { useData } from "../data";
import { Empty, Head, Loaded } from "../parts";

export function Problems(): JSX.Element {
  const data = useData<ProblemPage>("/problems", { kinds: ["problems"] });
  return (
    <>
      <Head title="Problems" sub="What is wrong with job files. A file with an error is not in force; its last good job is." />
      <Loaded data={data}>
        {({ problems }) => problems.length === 0 ? <Empty title="Every job file is good." /> : (
          <>
            {problems.slice(0, 200).map((problem, no) => (
              <section class={`panel problem ${problem.severity}`} key={no}>
                <h2>{problem.severity === "error" ? "✕" : "!"} {problem.file}{problem.line > 0 && <span class="muted">:{problem.line}:{problem.column}</span>}</h2>
                <p>{problem.message}</p>
                {problem.help != null && <p class="muted">{problem.help}</p>}
                <pre tabIndex={0}>{problem.rendered}</pre>
              </section>
            ))}
            {problems.length > 200 && <p class="muted">{problems.length - 200} more are not shown.</p>}
          </>
        )}
      </Loaded>
    </>
  );
}
