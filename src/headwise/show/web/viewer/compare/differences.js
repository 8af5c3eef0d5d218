// Two patterns over the same tokens: their difference, and how far apart their rows are.

import { Cells } from "../data/cells.js";

/** Walk the cells of row q of both: tell(key, weight of a or null, weight of b or null), keys rising. */
function walked(a, b, q, tell) {
  let i = a.start[q], j = b.start[q];
  const ends = [a.start[q + 1], b.start[q + 1]];
  while (i < ends[0] || j < ends[1]) {
    const ka = i < ends[0] ? a.key[i] : Infinity, kb = j < ends[1] ? b.key[j] : Infinity;
    if (ka === kb) tell(ka, a.weight[i++], b.weight[j++]);
    else if (ka < kb) tell(ka, a.weight[i++], null);
    else tell(kb, null, b.weight[j++]);
  }
}

/**
 * The cells of b - a. Of complete patterns all (what one may not see counts as 0); else those that were kept of one or
 * both, where the other counts as what its region holds on average, which is off by less than what was not kept.
 */
export function difference(a, b) {
  const start = new Uint32Array(a.queries + 1), key = [], weight = [];
  for (let q = 0; q < a.queries; q++) {
    walked(a, b, q, (k, one, two) => {
      const from = one ?? guessed(a, q, k), to = two ?? guessed(b, q, k);
      if (from === null || to === null) return;
      key.push(k);
      weight.push(to - from);
    });
    start[q + 1] = key.length;
  }
  const pooled = a.side > 0 && a.side === b.side, pool = pooled ? a.pool.map((mean, i) => b.pool[i] - mean) : new Float32Array(0);
  return new Cells(a.queries, a.keys, start, Uint16Array.from(key), Float32Array.from(weight), new Float32Array(a.queries),
    pooled ? a.side : 0, pool, a.complete && b.complete, Math.max(a.least, b.least));
}

/** The weight of a cell that is not there: 0 where all are kept, else the mean of its region; null where nobody knows. */
function guessed({ complete, side, pool, queries, keys }, q, k) {
  if (complete) return 0;
  return side > 0 ? pool[Math.floor((q * side) / queries) * side + Math.floor((k * side) / keys)] : null;
}

/**
 * Total variation distance of each row, half the sum of |b - a|, as {least, most}: [row] each.
 * They are equal where every cell is there; else the cells that were not kept leave room, by what rows hold of them.
 */
export function distances(a, b) {
  const least = new Float32Array(a.queries), most = new Float32Array(a.queries);
  const grouped = a.side > 0 && b.side > 0; // by tokens each cell is whole or not there at all
  for (let q = 0; q < a.queries; q++) {
    let both = 0, onlyA = 0, onlyB = 0;
    walked(a, b, q, (_, one, two) => {
      if (one === null) onlyB += two;
      else if (two === null) onlyA += one;
      else both += Math.abs(two - one);
    });
    const restA = a.rest[q], restB = b.rest[q], sum = both + onlyA + onlyB;
    most[q] = Math.min(1, (sum + restA + restB) / 2);
    least[q] = Math.max(0, (sum - restA - restB) / 2);
    if (grouped) least[q] = Math.max(least[q], (both + Math.abs(onlyA + restA - onlyB - restB)) / 2);
  }
  return { least, most };
}

/** Whether two patterns are the same in all that was kept of them: cells, what rows hold beside them, and regions. */
export function sameKept(a, b) {
  const same = (one, two) => one.length === two.length && one.every((x, i) => x === two[i]);
  return ["start", "key", "weight", "rest", "pool"].every((name) => same(a[name], b[name]));
}

export const meanOf = (values) => (values.length ? values.reduce((sum, x) => sum + x, 0) / values.length : 0);

/** Rows by how far apart they are, furthest first: [[row, least, most], ...]. */
export function furthest({ least, most }, count) {
  return Array.from(least, (x, q) => [q, x, most[q]]).sort((a, b) => b[1] - a[1]).slice(0, count);
}

/** A distance in words: ".31", or ".25–.40" where cells that were not kept leave room. */
export const distanceRange = (least, most, share) => (most - least < 5e-4 ? share(least) : `${share(least)}–${share(most)}`);
