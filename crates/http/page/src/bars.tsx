// Pictures made of bars and cells. Each has a table beside it that says the same.
import type { JSX } from "preact";

export interface Column {
  ok: number;
  bad: number;
  coming: number;
}

/** Stacked columns: what ended well at the bottom, what did not on top, what is to come in outline. */
export function Columns({ columns, nowAt, label, onPick }: { columns: Column[]; nowAt: number; label: string; onPick: (column: number) => void }): JSX.Element {
  const top = Math.max(1, ...columns.map((column) => column.ok + column.bad + column.coming));
  const height = (count: number): number => (count === 0 ? 0 : Math.max(2, (count / top) * 60));
  const paths = { ok: "", bad: "", coming: "" };
  columns.forEach((column, at) => {
    let y = 64;
    for (const kind of ["ok", "bad", "coming"] as const) {
      const tall = height(column[kind]);
      if (tall === 0) continue;
      y -= tall;
      paths[kind] += `M${at * 8 + 1} ${y}h6v${tall}h-6z`;
    }
  });
  const pick = (event: MouseEvent): void => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    onPick(Math.max(0, Math.min(columns.length - 1, Math.floor(((event.clientX - box.left) / box.width) * columns.length))));
  };
  return (
    <svg class="columns" viewBox={`0 0 ${columns.length * 8} 65`} preserveAspectRatio="none" role="img" aria-label={label} onClick={pick}>
      <path class="p-ok" d={paths.ok} />
      <path class="p-bad" d={paths.bad} />
      <path class="p-coming" d={paths.coming} />
      <path class="p-base" d={`M0 64.5h${columns.length * 8}`} />
      <path class="p-now" d={`M${nowAt * 8} 0v65`} />
    </svg>
  );
}

/** Five steps of one colour between the least and the most that there is: a busy fleet shows its quiet minutes too. */
export function heatLevel(count: number, least: number, most: number): number {
  if (count === 0) return 0;
  return most === least ? 3 : 1 + Math.min(4, Math.floor(Math.sqrt((count - least) / (most - least)) * 5));
}

const CELL = 14;

/** Rows of cells, all of one level in one path: a day of minutes is six elements. */
export function Heat({ rows, label, picked, onPick }: { rows: number[][]; label: string; picked: [number, number] | undefined; onPick: (row: number, column: number) => void }): JSX.Element {
  const counts = rows.flat().filter((count) => count > 0);
  const [least, most] = [Math.min(...counts), Math.max(...counts)];
  const paths = ["", "", "", "", "", ""];
  rows.forEach((cells, row) =>
    cells.forEach((count, column) => {
      paths[heatLevel(count, least, most)] += `M${column * CELL} ${row * CELL}h${CELL - 2}v${CELL - 2}h-${CELL - 2}z`;
    }),
  );
  const width = Math.max(1, ...rows.map((cells) => cells.length)) * CELL;
  const pick = (event: MouseEvent): void => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * (width / CELL));
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows.length);
    if (rows[row]?.[column] !== undefined) onPick(row, column);
  };
  return (
    <svg class="heat" viewBox={`0 0 ${width} ${rows.length * CELL}`} preserveAspectRatio="none" role="img" aria-label={label} onClick={pick}>
      {paths.map((path, level) => (
        <path key={level} class={`h${level}`} d={path} />
      ))}
      {picked !== undefined && <rect class="picked" x={picked[1] * CELL - 1} y={picked[0] * CELL - 1} width={CELL} height={CELL} />}
    </svg>
  );
}
