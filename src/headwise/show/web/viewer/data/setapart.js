// Some keys set apart: what each row gives them, and the cells that are left, as they are or scaled to the whole.

import { Cells } from "./cells.js";

/** Rows with less than this left are not scaled: of so little the bytes of a page cannot tell one cell from another. */
const LEFT_LEAST = 0.01;

const ROUNDED = 1 / 2047; // times the root of a weight: how far off it may be in a page

/**
 * The cells as they are to be shown, and numbers of each row as they are in truth, scaled or not.
 *
 * `ways` maps each kind of key to "shown", "hidden" or "renormalised"; `keysOf` to the keys of that kind. Hidden cells
 * are left out. Where some are renormalised, what is left is scaled so that it and what is hidden add up to what the
 * row had; a row with less than LEFT_LEAST left stays as it is. `sunk` says that a learned sink takes part of the rows.
 *
 * Returns {cells, apart: {kind: what each row gives its keys}, others: what it gives to all others, othersRest: what of
 * those was not kept, scaled as the cells are, sink: what a learned sink takes, too little to tell as 0, or null, short: 1
 * for rows that have too little left, shortCount: how many}. Rows that are no numbers have NaN.
 */
export function setApart(cells, keysOf, ways, sunk = false) {
  const kindOf = new Map();
  for (const [kind, keys] of Object.entries(keysOf)) for (const k of keys) kindOf.set(k, kind);
  const apart = heldApart(cells, keysOf, kindOf), had = hadBy(cells), others = new Float32Array(cells.queries);
  for (let q = 0; q < cells.queries; q++) others[q] = cells.isBroken(q) ? NaN : Math.max(0, had[q] - sumAt(apart, q, () => true));
  const { scale, short } = scalesOf(cells, apart, had, ways), shortCount = short.reduce((sum, x) => sum + x, 0);
  const found = { apart, others, sink: sunk ? sinkOf(cells, had) : null, short, shortCount };
  const othersRest = cells.rest.map((rest, q) => Math.max(0, rest - sumAt(cells.apartRest ?? {}, q, () => true)) * scale[q]);
  const plain = Object.values(ways).every((way) => way === "shown");
  return { cells: plain ? cells : leftOf(cells, kindOf, ways, scale), ...found, othersRest };
}

/** The sum over some kinds of what row q gives them. */
function sumAt(byKind, q, takes) {
  let sum = 0;
  for (const kind in byKind) if (takes(kind)) sum += byKind[kind][q];
  return sum;
}

/** What each row gives the keys of each kind: cells that were kept, and what of the others is known to lie there. */
function heldApart(cells, keysOf, kindOf) {
  const apart = Object.fromEntries(Object.entries(keysOf).map(([kind, keys]) =>
    [kind, keys.length && cells.apartRest?.[kind] ? Float32Array.from(cells.apartRest[kind]) : new Float32Array(cells.queries)]));
  for (let q = 0; q < cells.queries; q++) {
    for (let i = cells.start[q]; i < cells.start[q + 1]; i++) {
      const kind = kindOf.get(cells.key[i]);
      if (kind !== undefined) apart[kind][q] += cells.weight[i];
    }
    if (cells.isBroken(q)) for (const held of Object.values(apart)) held[q] = NaN;
  }
  return apart;
}

/** What each row has in all. */
function hadBy(cells) {
  const had = Float32Array.from(cells.rest);
  for (let q = 0; q < cells.queries; q++) for (let i = cells.start[q]; i < cells.start[q + 1]; i++) had[q] += cells.weight[i];
  return had;
}

/** By how much each row is scaled, and which rows have too little left for it. */
function scalesOf(cells, apart, had, ways) {
  const scale = new Float32Array(cells.queries).fill(1), short = new Uint8Array(cells.queries);
  if (!Object.values(ways).includes("renormalised")) return { scale, short };
  for (let q = 0; q < cells.queries; q++) {
    const taken = sumAt(apart, q, (kind) => ways[kind] === "renormalised"), hidden = sumAt(apart, q, (kind) => ways[kind] === "hidden");
    if (!(taken > 0)) continue;
    const left = had[q] - taken - hidden;
    if (left < LEFT_LEAST) short[q] = 1;
    else scale[q] = (had[q] - hidden) / left;
  }
  return { scale, short };
}

/** The cells that are left, scaled. */
function leftOf(cells, kindOf, ways, scale) {
  const start = new Uint32Array(cells.queries + 1), key = [], weight = [];
  const isShown = (kind) => kind === undefined || (ways[kind] ?? "shown") === "shown";
  for (let q = 0; q < cells.queries; q++) {
    for (let i = cells.start[q]; i < cells.start[q + 1]; i++) {
      if (!isShown(kindOf.get(cells.key[i]))) continue;
      key.push(cells.key[i]);
      weight.push(cells.weight[i] * scale[q]);
    }
    start[q + 1] = key.length;
  }
  const rest = cells.rest.map((all, q) => Math.max(0, all - sumAt(cells.apartRest ?? {}, q, (kind) => !isShown(kind))) * scale[q]);
  return new Cells(cells.queries, cells.keys, start, Uint16Array.from(key), Float32Array.from(weight), rest,
    cells.side, cells.pool, cells.complete, cells.least, { broken: cells.broken });
}

/** What a learned sink takes of each row: what is missing of 1 by more than weights are rounded. */
function sinkOf(cells, had) {
  return had.map((all, q) => {
    if (cells.isBroken(q)) return NaN;
    let off = Math.sqrt(cells.rest[q]) * ROUNDED;
    for (let i = cells.start[q]; i < cells.start[q + 1]; i++) off += Math.sqrt(cells.weight[i]) * ROUNDED;
    return all > 0 && 1 - all > off ? 1 - all : 0;
  });
}
