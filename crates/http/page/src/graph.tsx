// The graph of a job's steps: dependencies from left to right. Only the nodes in view are elements.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { MARKS } from "./parts";

export interface GraphNode {
  name: string;
  depends: string[];
  /** The column: the length of the longest way to it. */
  rank: number;
  /** The row within its column. */
  order: number;
}

const WIDE = 144;
const TALL = 40;
const BOX_WIDE = 116;
const BOX_TALL = 28;
/** Sweeps over the columns: more change little. */
const SWEEPS = 4;

/** Columns by the longest way, rows by the middle of the neighbours. */
export function layoutOf(steps: { name: string; depends: string[] }[]): GraphNode[] {
  const nodes = new Map<string, GraphNode>(steps.map((step) => [step.name, { ...step, rank: 0, order: 0 }]));
  // In a graph without circles every pass fixes one more column, so as many passes as steps are enough.
  for (let pass = 0, isMoving = true; isMoving && pass < steps.length; pass += 1) {
    isMoving = false;
    for (const node of nodes.values()) {
      const rank = Math.max(0, ...node.depends.map((name) => (nodes.get(name)?.rank ?? -1) + 1));
      isMoving ||= rank !== node.rank;
      node.rank = rank;
    }
  }
  const columns: GraphNode[][] = [];
  for (const node of nodes.values()) (columns[node.rank] ??= []).push(node);
  const follows = new Map<string, string[]>();
  for (const node of nodes.values()) for (const name of node.depends) follows.set(name, [...(follows.get(name) ?? []), node.name]);
  const place = (column: GraphNode[]): void => column.forEach((node, row) => (node.order = row));
  columns.forEach(place);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const column of sweep % 2 === 0 ? columns : [...columns].reverse()) {
      const middle = (node: GraphNode): number => {
        const rows = (sweep % 2 === 0 ? node.depends : (follows.get(node.name) ?? [])).map((name) => nodes.get(name)?.order ?? 0);
        return rows.length === 0 ? node.order : rows.reduce((sum, row) => sum + row, 0) / rows.length;
      };
      const middles = new Map(column.map((node) => [node, middle(node)]));
      column.sort((a, b) => (middles.get(a) ?? 0) - (middles.get(b) ?? 0) || a.order - b.order);
      place(column);
    }
  }
  return [...nodes.values()];
}

interface Props {
  nodes: GraphNode[];
  statuses?: Map<string, string>;
  picked?: string | undefined;
  onPick?: (name: string) => void;
}

export function Graph({ nodes, statuses, picked, onPick }: Props): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ left: 0, top: 0, right: 1400, bottom: 400 });
  const look = (): void => {
    const at = box.current;
    if (at !== null) setView({ left: at.scrollLeft, top: at.scrollTop, right: at.scrollLeft + at.clientWidth, bottom: at.scrollTop + at.clientHeight });
  };
  useEffect(look, [nodes.length]);
  const rows = Math.max(1, ...nodes.map((node) => node.order + 1));
  const counts = new Map<number, number>();
  for (const node of nodes) counts.set(node.rank, (counts.get(node.rank) ?? 0) + 1);
  // Shorter columns stand in the middle.
  const x = (node: GraphNode): number => node.rank * WIDE;
  const y = (node: GraphNode): number => (node.order + (rows - (counts.get(node.rank) ?? rows)) / 2) * TALL;
  const byName = new Map(nodes.map((node) => [node.name, node]));
  let edges = "";
  for (const node of nodes) {
    for (const name of node.depends) {
      const from = byName.get(name);
      if (from === undefined) continue;
      const [x1, y1, x2, y2] = [x(from) + BOX_WIDE, y(from) + BOX_TALL / 2, x(node), y(node) + BOX_TALL / 2];
      edges += `M${x1} ${y1}C${x1 + 18} ${y1} ${x2 - 18} ${y2} ${x2} ${y2}`;
    }
  }
  const wide = (Math.max(0, ...nodes.map((node) => node.rank)) + 1) * WIDE - WIDE + BOX_WIDE + 4;
  const tall = rows * TALL - TALL + BOX_TALL + 4;
  const isSeen = (node: GraphNode): boolean => x(node) + WIDE > view.left && x(node) < view.right + WIDE && y(node) + TALL > view.top && y(node) < view.bottom + TALL;
  return (
    <div class="graph" ref={box} onScroll={look} tabIndex={0} role="group" aria-label={`Graph of ${nodes.length} steps`}>
      <div class="graph-space" style={{ width: `${wide}px`, height: `${tall}px` }}>
        <svg width={wide} height={tall} aria-hidden="true"><path d={edges} /></svg>
        {nodes.filter(isSeen).map((node) => {
          const status = statuses?.get(node.name);
          return (
            <button key={node.name} type="button" class={`node${status === undefined ? "" : ` s-${status}`}`} aria-pressed={onPick === undefined ? undefined : node.name === picked} disabled={onPick === undefined}
              title={`${node.name}${status === undefined ? "" : `: ${status}`}${node.depends.length === 0 ? "" : `, after ${node.depends.join(", ")}`}`}
              style={{ left: `${x(node)}px`, top: `${y(node)}px` }} onClick={() => onPick?.(node.name)}>
              {status !== undefined && <span aria-hidden="true" class={`status s-${status}`}>{MARKS[status] ?? "·"}</span>}<span class="node-name">{node.name}</span>{status !== undefined && <span class="sr">: {status}</span>}
            </button>
          );
        })}
      </div>
    </div>
  );
}
