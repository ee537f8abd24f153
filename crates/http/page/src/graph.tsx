// The graph of a job's steps, laid out by the server: dependencies from left to right. Only the nodes in view are elements.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { Graph as Answer, GraphNode } from "./api";
import { MARKS } from "./parts";

const WIDE = 144;
const TALL = 40;
const BOX_WIDE = 116;
const BOX_TALL = 28;
interface Props {
  graph: Answer;
  statuses?: Map<string, string>;
  picked?: string | undefined;
  onPick?: (name: string) => void;
}

export function Graph({ graph: { nodes, edges: links, width: rows }, statuses, picked, onPick }: Props): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ left: 0, top: 0, right: 1400, bottom: 400 });
  const look = (): void => {
    const at = box.current;
    if (at !== null) setView({ left: at.scrollLeft, top: at.scrollTop, right: at.scrollLeft + at.clientWidth, bottom: at.scrollTop + at.clientHeight });
  };
  useEffect(look, [nodes.length]);
  const counts = new Map<number, number>();
  for (const node of nodes) counts.set(node.rank, (counts.get(node.rank) ?? 0) + 1);
  // Shorter columns stand in the middle.
  const x = (node: GraphNode): number => node.rank * WIDE;
  const y = (node: GraphNode): number => (node.order + (rows - (counts.get(node.rank) ?? rows)) / 2) * TALL;
  let edges = "";
  for (const link of links) {
    const [from, to] = [nodes[link.from], nodes[link.to]];
    if (from === undefined || to === undefined) continue;
    const [x1, y1, x2, y2] = [x(from) + BOX_WIDE, y(from) + BOX_TALL / 2, x(to), y(to) + BOX_TALL / 2];
    edges += `M${x1} ${y1}C${x1 + 18} ${y1} ${x2 - 18} ${y2} ${x2} ${y2}`;
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
              title={`${node.name}${status === undefined ? "" : `: ${status}`}`}
              style={{ left: `${x(node)}px`, top: `${y(node)}px` }} onClick={() => onPick?.(node.name)}>
              {status !== undefined && <span aria-hidden="true" class={`status s-${status}`}>{MARKS[status] ?? "·"}</span>}<span class="node-name">{node.name}</span>{status !== undefined && <span class="sr">: {status}</span>}
            </button>
          );
        })}
      </div>
    </div>
  );
}
