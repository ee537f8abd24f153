import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import type { HealthItem } from "../api";
import { ApiFailure, request } from "../client";
import { load } from "../live";
import { Failure, Head, Status, Time } from "../parts";
import { clock, countText, durationText } from "../time";

const LOOK_EVERY_MS = 5000;

/** The server that answers, by its own measurements. */
export function Servers(): JSX.Element {
  const [health, setHealth] = useState<{ value: HealthItem; at: number }>();
  const [failure, setFailure] = useState<ApiFailure>();
  useEffect(() => {
    let isCurrent = true;
    const look = (): void => {
      if (document.visibilityState !== "visible") return;
      request<HealthItem>("GET", "/health", undefined, [503])
        .then((value) => {
          if (!isCurrent) return;
          setHealth({ value, at: Date.now() });
          setFailure(undefined);
        })
        .catch((error: unknown) => isCurrent && setFailure(error as ApiFailure));
    };
    look();
    const timer = window.setInterval(look, LOOK_EVERY_MS);
    return () => {
      isCurrent = false;
      window.clearInterval(timer);
    };
  }, []);
  return (
    <>
      <Head title="Servers" sub="The server that answers this page, measured by itself every few seconds." />
      {failure !== undefined && <Failure failure={failure} />}
      {health !== undefined && <Server health={health.value} at={health.at} />}
    </>
  );
}

function Server({ health, at }: { health: HealthItem; at: number }): JSX.Element {
  const { disk } = health;
  return (
    <>
      <section class="panel">
        <h2>{location.host} <Status word={health.status === "ok" ? "succeeded" : "failed"} text={health.status} /></h2>
        <dl class="facts">
          <Fact name="Version">{health.version}</Fact>
          <Fact name="Started"><Time ms={at - health.uptime_ms} /> <span class="muted"><Time ms={at - health.uptime_ms} ago /></span></Fact>
          <Fact name="Takes up work">{health.ready ? "yes" : "not yet, or not any more"}</Fact>
          <Fact name="Runs">{load.value === undefined ? "–" : `${countText(load.value.active)} active, ${countText(load.value.waiting)} waiting`}</Fact>
        </dl>
        <h3>Last sign of each part</h3>
        <dl class="facts">
          <Fact name="Scheduling loop">{ageText(health.loop_age_ms, at)}</Fact>
          <Fact name="Database">{health.store_ok ? ageText(health.store_age_ms, at) : "does not answer"}</Fact>
          <Fact name="Oldest batch not yet on disk">{health.batch_age_ms == null ? "none" : durationText(health.batch_age_ms)}</Fact>
          <Fact name="Processes of steps">{health.executor_age_ms == null ? "none yet" : ageText(health.executor_age_ms, at)}</Fact>
        </dl>
      </section>
      <section class="panel">
        <h2>What is kept on disk <span class="muted">{disk.measured_at_ms == null ? "not measured yet" : <>measured <Time ms={disk.measured_at_ms} ago /></>}</span></h2>
        <Use name="Database" used={disk.database_bytes} most={disk.database_bytes_max} />
        <Use name="Logs" used={disk.log_bytes} most={disk.log_bytes_max} />
        <p class="muted">Kept: {[disk.days_max != null && `${countText(disk.days_max)} days`, disk.runs_max != null && `${countText(disk.runs_max)} runs`].filter(Boolean).join(", at most ") || "everything that fits"}. Since the start {countText(disk.runs_forgotten)} runs and {countText(disk.logs_removed)} logs were removed.</p>
      </section>
    </>
  );
}

const ageText = (age: number, at: number): string => `${durationText(Math.max(0, age + clock.value - at))} ago`;

function Fact({ name, children }: { name: string; children: ComponentChildren }): JSX.Element {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

/** How much of an allowance is used, as a bar and in numbers. An allowance of 0 is none. */
function Use({ name, used, most }: { name: string; used: number; most: number }): JSX.Element {
  return (
    <div class="use">
      <span>{name}</span>
      {most > 0 && <meter value={used} max={most} aria-label={`${name}: ${bytesText(used)} of ${bytesText(most)}`} />}
      <span class="muted">{bytesText(used)}{most > 0 ? ` of ${bytesText(most)}` : ""}</span>
    </div>
  );
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytesText(bytes: number): string {
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}
