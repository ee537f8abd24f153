// Runs in a table, as several screens show them.
import type { JSX } from "preact";

import type { RunItem } from "../api";
import { RowLink, Status, Time } from "../parts";
import { clock, durationText } from "../time";

export function RunTable({ runs, hasJob }: { runs: RunItem[]; hasJob: boolean }): JSX.Element {
  return (
    <table class="cards">
      <thead>
        <tr>
          <th>Run</th>
          {hasJob && <th>Job</th>}
          <th>Status</th>
          <th>Due</th>
          <th class="num">Late</th>
          <th class="num">Took</th>
          <th>Why</th>
        </tr>
      </thead>
      <tbody>
        {runs.map((run) => (
          <tr key={run.id}>
            <td class="name mono"><RowLink to={`/runs/${run.id}`}>{run.id}</RowLink></td>
            {hasJob && <td data-name="Job"><a href={`/jobs/${run.job}`}>{run.job}</a></td>}
            <td data-name="Status"><Status word={run.status} /></td>
            <td data-name="Due"><Time ms={run.due_ms} /></td>
            <td data-name="Late" class="num">{run.late_ms == null ? "–" : durationText(Math.max(0, run.late_ms))}</td>
            <td data-name="Took" class="num">{took(run)}</td>
            <td data-name="Why" class="why">{run.explanation}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function took(run: { started_at_ms?: number | null; duration_ms?: number | null; ended?: boolean }): string {
  if (run.duration_ms != null) return durationText(run.duration_ms);
  if (run.started_at_ms != null) return durationText(Math.max(0, clock.value - run.started_at_ms));
  return "–";
}
