// Instants and durations in words. One switch chooses the zone for the whole page.
import { computed, signal } from "@preact/signals";

export type ZoneChoice = "local" | "job" | "utc";

const stored = ((): string | null => {
  try {
    return localStorage.getItem("zone");
  } catch {
    return null;
  }
})();

export const zoneChoice = signal<ZoneChoice>(stored === "utc" || stored === "job" ? stored : "local");
/** The zone of the job on the screen. */
export const jobZone = signal<string | undefined>(undefined);

const viewerZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const zone = computed(() => (zoneChoice.value === "utc" ? "UTC" : zoneChoice.value === "job" ? (jobZone.value ?? viewerZone) : viewerZone));

export function switchZone(): void {
  const order: ZoneChoice[] = jobZone.value === undefined ? ["local", "utc"] : ["local", "job", "utc"];
  zoneChoice.value = order[(order.indexOf(zoneChoice.value) + 1) % order.length] ?? "local";
  try {
    localStorage.setItem("zone", zoneChoice.value);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(kind: "time" | "date" | "full", name: string): Intl.DateTimeFormat {
  const key = `${kind} ${name}`;
  let made = formats.get(key);
  if (made === undefined) {
    const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" } as const;
    const day = { year: "numeric", month: "2-digit", day: "2-digit" } as const;
    const parts = kind === "time" ? clock : kind === "date" ? day : { ...day, ...clock };
    const safe = ((): string => {
      try {
        return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone;
      } catch {
        return "UTC";
      }
    })();
    made = new Intl.DateTimeFormat("sv-SE", { ...parts, timeZone: safe });
    formats.set(key, made);
  }
  return made;
}

export const timeText = (ms: number, name = zone.value): string => format("time", name).format(ms);
export const dateText = (ms: number, name = zone.value): string => format("date", name).format(ms);
export const fullText = (ms: number, name = zone.value): string => format("full", name).format(ms);

/** The time, with its day in front when that is not today. */
export function shortText(ms: number, name = zone.value): string {
  const day = dateText(ms, name);
  return day === dateText(Date.now(), name) ? timeText(ms, name) : `${day} ${timeText(ms, name).slice(0, 5)}`;
}

export function agoText(ms: number, now: number): string {
  const away = Math.abs(now - ms);
  const words = away < 60_000 ? `${Math.floor(away / 1000)} s` : durationText(away - (away % 60_000));
  return away < 1000 ? "now" : ms > now ? `in ${words}` : `${words} ago`;
}

export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const total = Math.round(ms / 1000);
  const days = Math.floor(total / 86400);
  const hours = Math.floor(total / 3600) % 24;
  const minutes = Math.floor(total / 60) % 60;
  const seconds = total % 60;
  if (days > 0) return hours > 0 ? `${days} d ${hours} h` : `${days} d`;
  if (hours > 0) return minutes > 0 ? `${hours} h ${minutes} min` : `${hours} h`;
  if (minutes > 0) return seconds > 0 ? `${minutes} min ${seconds} s` : `${minutes} min`;
  return `${seconds} s`;
}

/** The time by the second, for what counts up or down on the screen. */
export const clock = signal(Date.now());
window.setInterval(() => {
  if (document.visibilityState === "visible") clock.value = Date.now();
}, 1000);

/** The instant of a local time such as `2026-11-18T02:30` in a zone. Of a time that comes twice, one of the two. */
export function instantOf(local: string, name = zone.value): number {
  const asUtc = Date.parse(`${local}Z`);
  let instant = asUtc;
  // The offset is that of the instant looked for, so the first guess is corrected once more.
  for (let turn = 0; turn < 2; turn += 1) instant = asUtc - (Date.parse(`${fullText(instant, name).replace(" ", "T")}Z`) - instant);
  return instant;
}

const counts = new Intl.NumberFormat("en");

/** A count with its thousands apart. */
export const countText = (count: number): string => counts.format(count);
