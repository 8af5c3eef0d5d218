// The pattern of one head as the cells that were kept, row by row, and what the others of a region hold on average.

const ROOT = 2047; // a weight w is kept as round(sqrt(w) * ROOT)
const HEADER = 7; // numbers of four bytes before the cells

/**
 * The cells of a pattern: those of query q are start[q] .. start[q + 1] of `key` (rising) and `weight`.
 *
 * `complete` says that every cell that may be seen is there; else `rest[q]` is what the others of row q hold together,
 * and `pool` (side x side, row by row) the mean weight of a cell that was not kept, by region.
 */
export class Cells {
  constructor(queries, keys, start, key, weight, rest, side, pool, complete, least) {
    Object.assign(this, { queries, keys, start, key, weight, rest, side, pool, complete, least });
  }

  /** The weight of one cell; null where it was not kept (or may not be seen). */
  at(q, k) {
    let low = this.start[q], high = this.start[q + 1] - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (this.key[middle] === k) return this.weight[middle];
      if (this.key[middle] < k) low = middle + 1;
      else high = middle - 1;
    }
    return null;
  }

  /** The cells of a row, strongest first: [[key, weight], ...]. */
  row(q, most = Infinity) {
    const found = [];
    for (let i = this.start[q]; i < this.start[q + 1]; i++) found.push([this.key[i], this.weight[i]]);
    return found.sort((a, b) => b[1] - a[1]).slice(0, most);
  }

  /** The cells of a column, strongest first: [[query, weight], ...]. */
  column(k, most = Infinity) {
    const found = [];
    for (let q = 0; q < this.queries; q++) {
      const weight = this.at(q, k);
      if (weight !== null) found.push([q, weight]);
    }
    return found.sort((a, b) => b[1] - a[1]).slice(0, most);
  }

  /** The largest weight that was kept. */
  get largest() {
    return (this.top ??= this.weight.reduce((a, b) => Math.max(a, b), 0));
  }

  get bytes() {
    return this.start.byteLength + this.key.byteLength + this.weight.byteLength + this.rest.byteLength;
  }
}

/** Read the bytes that Python's show/page/cells.py writes (inflated). */
export function readCells(bytes) {
  const head = new DataView(bytes.buffer, bytes.byteOffset, HEADER * 4);
  const [queries, keys, count, side, complete] = [0, 4, 8, 12, 16].map((at) => head.getUint32(at, true));
  const poolTop = head.getFloat32(20, true), least = head.getFloat32(24, true);
  let at = HEADER * 4;
  const wide = (n) => { // numbers of two bytes: all low bytes, then all high bytes
    const low = bytes.subarray(at, at + n), high = bytes.subarray(at + n, at + 2 * n);
    at += 2 * n;
    const found = new Uint16Array(n);
    for (let i = 0; i < n; i++) found[i] = low[i] | (high[i] << 8);
    return found;
  };
  const counts = wide(queries), steps = wide(count), roots = wide(count), rests = wide(queries);
  const start = new Uint32Array(queries + 1), weight = new Float32Array(count);
  for (let q = 0; q < queries; q++) start[q + 1] = start[q] + counts[q];
  for (let q = 0; q < queries; q++) { // each key as its distance from the one before it in the row
    for (let i = start[q] + 1; i < start[q + 1]; i++) steps[i] += steps[i - 1];
  }
  for (let i = 0; i < count; i++) weight[i] = (roots[i] / ROOT) ** 2;
  const rest = Float32Array.from(rests, (root) => (root / ROOT) ** 2);
  const pool = Float32Array.from(bytes.subarray(at, at + side * side), (part) => (part / 255) ** 2 * poolTop);
  return new Cells(queries, keys, start, steps, weight, rest, side, pool, complete === 1, least);
}

/** By words: to a word the sum over its tokens, from a word their mean. Words are [text, first token, last (exclusive)]. */
export function toWords(cells, rows, columns) {
  const word = new Uint16Array(cells.keys);
  columns.forEach(([, first, last], at) => word.fill(at, first, last));
  const start = new Uint32Array(rows.length + 1), key = [], weight = [], rest = new Float32Array(rows.length);
  const sums = new Float32Array(columns.length);
  rows.forEach(([, first, last], at) => {
    const seen = new Set(), share = 1 / Math.max(1, last - first);
    for (let i = cells.start[first]; i < cells.start[last]; i++) {
      sums[word[cells.key[i]]] += cells.weight[i] * share;
      seen.add(word[cells.key[i]]);
    }
    for (let q = first; q < last; q++) rest[at] += cells.rest[q] * share;
    for (const k of [...seen].sort((a, b) => a - b)) {
      key.push(k);
      weight.push(sums[k]);
      sums[k] = 0;
    }
    start[at + 1] = key.length;
  });
  return new Cells(rows.length, columns.length, start, Uint16Array.from(key), Float32Array.from(weight), rest, 0,
    new Float32Array(0), cells.complete, cells.least);
}

/**
 * Some keys set apart. Returns the cells as they are to be shown and what each row gives to the keys set apart.
 *
 * `ways` maps each kind of key to "shown", "hidden" or "renormalised"; `keysOf` to the keys of that kind. Hidden cells
 * are left out; renormalised rows are what is left, scaled to the sum they had.
 */
export function setApart(cells, keysOf, ways) {
  const apart = Object.fromEntries(Object.keys(keysOf).map((kind) => [kind, new Float32Array(cells.queries)]));
  const kindOf = new Map();
  for (const [kind, keys] of Object.entries(keysOf)) for (const k of keys) kindOf.set(k, kind);
  const plain = Object.values(ways).every((way) => way === "shown");
  const start = new Uint32Array(cells.queries + 1), key = [], weight = [], rest = Float32Array.from(cells.rest);
  for (let q = 0; q < cells.queries; q++) {
    let taken = 0, sum = cells.rest[q];
    for (let i = cells.start[q]; i < cells.start[q + 1]; i++) {
      const kind = kindOf.get(cells.key[i]), way = kind === undefined ? "shown" : ways[kind] ?? "shown";
      if (kind !== undefined) apart[kind][q] += cells.weight[i];
      sum += cells.weight[i];
      if (way === "renormalised") taken += cells.weight[i];
      if (way !== "shown" || plain) continue;
      key.push(cells.key[i]);
      weight.push(cells.weight[i]);
    }
    if (plain) continue;
    const scale = taken > 0 && sum - taken > 1e-6 ? sum / (sum - taken) : 1;
    for (let i = start[q]; i < key.length; i++) weight[i] *= scale;
    rest[q] *= scale;
    start[q + 1] = key.length;
  }
  if (plain) return { cells, apart };
  const left = new Cells(cells.queries, cells.keys, start, Uint16Array.from(key), Float32Array.from(weight), rest,
    cells.side, cells.pool, cells.complete, cells.least);
  return { cells: left, apart };
}
