// The address is the state: every screen and filter is a link.
import { signal } from "@preact/signals";

export interface Place {
  path: string[];
  query: URLSearchParams;
  hash: string;
}

function read(): Place {
  const path = location.pathname.split("/").filter((part) => part !== "");
  return { path: path.map(decode), query: new URLSearchParams(location.search), hash: location.hash };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const place = signal<Place>(read());

window.addEventListener("popstate", () => {
  place.value = read();
});

export function go(to: string, replace = false): void {
  const before = location.pathname;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  place.value = read();
  if (location.pathname !== before) window.scrollTo(0, 0);
}

/** Changes fields of the query; an empty value drops its field. */
export function setQuery(changes: Record<string, string | undefined>, replace = true): void {
  const fields = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === "") fields.delete(name);
    else fields.set(name, value);
  }
  const text = fields.toString();
  go(`${location.pathname}${text === "" ? "" : `?${text}`}`, replace);
}

/** Links inside of the page change the address without a load. */
export function followLinks(): void {
  document.addEventListener("click", (event) => {
    const link = (event.target as Element | null)?.closest("a");
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !isPlain || link.hasAttribute("download") || link.target !== "" || link.origin !== location.origin) return;
    if (link.pathname.startsWith("/api/") || link.pathname.startsWith("/assets/")) return;
    event.preventDefault();
    go(link.pathname + link.search + link.hash);
  });
}
