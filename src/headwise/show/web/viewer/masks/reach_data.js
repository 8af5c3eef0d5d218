// Who can influence whom: reads what Python's show/page/flow.py and reach.py tell, and answers questions about it.

/** Rows of numbers kept as runs: `ends[row]` where each run ends (exclusive), `values[row]` what stands in it. */
export class RunRows {
  constructor(rows) {
    this.ends = [];
    this.values = [];
    for (const runs of rows) {
      const ends = new Int32Array(runs.length / 2), values = new Int32Array(runs.length / 2);
      for (let i = 0, at = 0; i < ends.length; i++) {
        values[i] = runs[2 * i];
        ends[i] = at += runs[2 * i + 1];
      }
      this.ends.push(ends);
      this.values.push(values);
    }
  }

  get rows() {
    return this.ends.length;
  }

  /** The number in one cell. */
  at(row, column) {
    const ends = this.ends[row];
    let low = 0, high = ends.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle] > column) high = middle;
      else low = middle + 1;
    }
    return this.values[row][low];
  }

  /** Call tell(from, to, value) for each run of a row. */
  each(row, tell) {
    const ends = this.ends[row], values = this.values[row];
    for (let i = 0, from = 0; i < ends.length; from = ends[i++]) tell(from, ends[i], values[i]);
  }
}

/** A reach: of a sequence (`own`), and beside an encoder of its positions too (`across`); null where nothing is told. */
export function readReach(data, which = "own") {
  const stack = (packed) => {
    const masks = packed.masks.map((rows) => new RunRows(rows));
    return { first: new RunRows(packed.first), masks, turns: packed.turns, seen: (layer) => masks[packed.turns[layer - 1]] };
  };
  const encoder = data.encoder ? stack(data.encoder) : null;
  const ids = data.ids?.[which] ?? null;
  if (which === "encoder")
    return { which, layers: data.encoder.turns.length, length: data.source_length, start: 0, sources: 0, own: encoder, across: null, encoder: null, ids, masks: [] };
  return {
    which, layers: data.layers, length: data.length, start: data.start, sources: data.across ? data.source_length : 0,
    own: stack(data.own), across: data.across ? stack(data.across) : null, encoder, ids, masks: data.masks,
  };
}

const reachOpen = (opens, layer) => opens >= 0 && opens <= layer;

/** The last layer that opens a path. */
export function lastToOpen({ own, across }) {
  const most = (stack) => stack.first.values.reduce((top, row) => row.reduce((a, b) => Math.max(a, b), top), 0);
  return (own.first.last ??= Math.max(most(own), across ? most(across) : 0, 1));
}

/** Of how many positions each query's output can hold the input, after a layer. */
export function contextsOf(first, layer) {
  first.contexts ??= new Map();
  if (!first.contexts.has(layer)) first.contexts.set(layer, first.ends.map((_, row) => {
    let n = 0;
    first.each(row, (from, to, opens) => { if (reachOpen(opens, layer)) n += to - from; });
    return n;
  }));
  return first.contexts.get(layer);
}

/** How far back the furthest position lies that reaches this one. */
export function backOf(first, q, layer) {
  let far = q;
  first.each(q, (from, _, opens) => { if (reachOpen(opens, layer)) far = Math.min(far, from); });
  return Math.max(0, q - far);
}

/** How many positions from `start` on one reaches. */
export function onwardsOf(first, k, layer, start) {
  let n = 0;
  for (let q = start; q < first.rows; q++) if (reachOpen(first.at(q, k), layer)) n++;
  return n;
}

/** The steps of one of the shortest ways from k to q, the first first; null where there is none. */
export function pathBetween(reach, q, k, memory) {
  const held = memory ? reach.across.first : reach.own.first, hops = [];
  let layer = held.at(q, k);
  if (layer < 0) return null;
  while (layer > 0) {
    const across = memory ? acrossWay(reach, layer, q, k) : null;
    if (across !== null) return [...across, ...hops.reverse()];
    const via = carrierOf(reach.own, held, layer, q, k);
    hops.push({ layer, q, k: via, stream: "self" });
    q = via;
    layer = held.at(via, k);
  }
  return hops.reverse();
}

/** The position that layer `layer` brings what k has from, the nearest one to q. */
function carrierOf(stack, held, layer, q, k) {
  return nearestSeen(stack.seen(layer), q, q, (j) => j < held.rows && held.at(j, k) >= 0 && held.at(j, k) < layer);
}

function acrossWay(reach, layer, q, k) {
  const via = nearestSeen(reach.across.seen(layer), q, k, (e) => reach.encoder.first.at(e, k) >= 0);
  if (via < 0) return null;
  const inner = { own: reach.encoder, across: null };
  return [...pathBetween(inner, via, k, false).map((hop) => ({ ...hop, stream: "encoder" })), { layer, q, k: via, stream: "cross" }];
}

/** Of the ones that a row sees and `fits` takes, the one nearest to `to`; of two the earlier; -1 for none. */
function nearestSeen(seen, row, to, fits) {
  let best = -1;
  seen.each(row, (from, end, sees) => {
    for (let j = sees ? from : end; j < end; j++)
      if ((best < 0 || Math.abs(j - to) < Math.abs(best - to)) && fits(j)) best = j;
  });
  return best;
}

/** For each layer up to `top`, as 1, who carries something to q's output there. */
export function coneOf(reach, q, top) {
  const sets = [];
  sets[top] = Uint8Array.from({ length: reach.length }, (_, j) => Number(j === q));
  for (let layer = top; layer > 0; layer--) {
    const now = sets[layer], marks = new Int32Array(reach.length + 1), before = Uint8Array.from(now);
    for (let i = 0; i < now.length; i++) if (now[i]) reach.own.seen(layer).each(i, (from, to, sees) => {
      if (sees) { marks[from]++; marks[to]--; }
    });
    for (let j = 0, depth = 0; j < before.length; j++) if ((depth += marks[j]) > 0) before[j] = 1;
    sets[layer - 1] = before;
  }
  return sets;
}

/** The measured flow of a stream: `levels(layer)` holds [query, key tried], 0 = no more than rounding. */
export function readFlow(flow, bytesOf) {
  const held = new Map();
  return {
    ...flow,
    levels(layer) {
      if (!held.has(layer)) held.set(layer, bytesOf(flow.moved[layer - 1]));
      return held.get(layer);
    },
    /** What a level stands for, as a share of the stream's length; 0 for what rounding may be. */
    share: (level) => (level === 0 ? 0 : 10 ** ((level - 1) / 20 - 8)),
  };
}
