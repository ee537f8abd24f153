// One beat for the whole page: whatever has to be loaded anew is loaded together and drawn together, so that a thousand
// changes a second are one drawing a second.

/** Starts a load and resolves to what puts its answer on the screen. */
export type Load = () => Promise<() => void>;

/** Between two beats. */
const BEAT_MS = 1000;
/** Answers that take longer than this after the beat are drawn on their own. */
const TOGETHER_MS = 400;
/** Changes that come one after another within this time are one. */
const GATHER_MS = 50;

const waiting = new Set<Load>();
let timer = 0;
let lastAt = 0;

/** Loads at the next beat. Asking twice before it is asking once. */
export function atNextBeat(load: Load): void {
  waiting.add(load);
  if (timer === 0) timer = window.setTimeout(beat, Math.max(GATHER_MS, lastAt + BEAT_MS - Date.now()));
}

export function forget(load: Load): void {
  waiting.delete(load);
}

function beat(): void {
  timer = 0;
  lastAt = Date.now();
  const loads = [...waiting];
  waiting.clear();
  let shown: (() => void)[] | undefined = [];
  const show = (): void => {
    const ready = shown ?? [];
    shown = undefined;
    for (const draw of ready) draw();
  };
  const late = window.setTimeout(show, TOGETHER_MS);
  const all = loads.map((load) => load().then((draw) => (shown === undefined ? draw() : void shown.push(draw))));
  void Promise.allSettled(all).then(() => {
    window.clearTimeout(late);
    show();
  });
}
