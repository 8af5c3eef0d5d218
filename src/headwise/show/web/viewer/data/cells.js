// The pattern of one head as the cells that were kept, row by row, and what the others of a region hold on average.

const ROOT = 2047; // a weight w is kept as round(sqrt(w) * ROOT)
const NO_NUMBER = 65535; // what rows hold besides, where their weights are no numbers
const HEADER = 7; // numbers of four bytes before the cells

/**
 * The cells of a pattern: those of query q are start[q] .. start[q + 1] of `key` (rising) and `weight`.
 *
 * `complete` says that every cell that may be seen is there; else `rest[q]` is what the others of row q hold together,
 * and `pool` (side x side, row by row) the mean weight of a cell that was not kept, by region. What of the rest lies on
 * keys that can be set apart: `apartRest` = {first, separator}, by row; `wordRest` the same for those set apart by words.
 * Both are null where there is no rest. `broken[q]` marks rows whose weights are no numbers, which hold no cells; null
 * where there are none.
 */
export class Cells {
  constructor(queries, keys, start, key, weight, rest, side, pool, complete, least, { apartRest = null, wordRest = null, broken = null } = {}) {
    Object.assign(this, { queries, keys, start, key, weight, rest, side, pool, complete, least, apartRest, wordRest, broken });
  }

  /** Whether the weights of a row are no numbers. */
  isBroken(q) {
    return this.broken !== null && this.broken[q] === 1;
  }

  /** The weight of one cell; null where it was not kept (or may not be seen), NaN where it is no number. */
  at(q, k) {
    if (this.isBroken(q)) return NaN;
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
      if (weight !== null && !Number.isNaN(weight)) found.push([q, weight]);
    }
    return found.sort((a, b) => b[1] - a[1]).slice(0, most);
  }

  /** The largest weight that was kept. */
  get largest() {
    return (this.top ??= this.weight.reduce((a, b) => Math.max(a, b), 0));
  }

  get bytes() {
    const planes = [this.apartRest, this.wordRest].flatMap((rest) => Object.values(rest ?? {}));
    return [this.start, this.key, this.weight, this.rest, ...planes].reduce((sum, { byteLength }) => sum + byteLength, 0);
  }
}

/** Read the bytes that Python's show/page/cells.py writes (inflated). */
export function readCells(bytes) {
  if (bytes.length < HEADER * 4) throw new Error("bytes are missing");
  const head = new DataView(bytes.buffer, bytes.byteOffset, HEADER * 4);
  const [queries, keys, count, side, whole] = [0, 4, 8, 12, 16].map((at) => head.getUint32(at, true));
  const complete = whole === 1, poolTop = head.getFloat32(20, true), least = head.getFloat32(24, true);
  const size = HEADER * 4 + 2 * (2 * queries + 2 * count + (complete ? 0 : 4 * queries)) + side * side;
  if (bytes.length !== size || (complete && side > 0)) throw new Error("bytes are missing, or too many");
  let at = HEADER * 4;
  const wide = (n) => { // numbers of two bytes: all low bytes, then all high bytes
    const low = bytes.subarray(at, at + n), high = bytes.subarray(at + n, at + 2 * n);
    at += 2 * n;
    const found = new Uint16Array(n);
    for (let i = 0; i < n; i++) found[i] = low[i] | (high[i] << 8);
    return found;
  };
  const masses = (roots) => Float32Array.from(roots, (root) => (root === NO_NUMBER ? 0 : (root / ROOT) ** 2));
  const counts = wide(queries), steps = wide(count), weight = masses(wide(count)), rests = wide(queries);
  const start = startsOf(counts, count);
  keysOfSteps(steps, start, keys);
  const broken = rests.includes(NO_NUMBER) ? Uint8Array.from(rests, (root) => (root === NO_NUMBER ? 1 : 0)) : null;
  const planes = complete ? [] : Array.from({ length: 4 }, () => wide(queries)); // those by words as what they have more
  const restOf = (first, separator) => (complete ? null : { first: masses(first), separator: masses(separator) });
  const apartRest = restOf(...planes), wordRest = restOf(...planes.slice(2).map((more, at) => more.map((x, q) => x + planes[at][q])));
  const pool = Float32Array.from(bytes.subarray(at, at + side * side), (part) => (part / 255) ** 2 * poolTop);
  return new Cells(queries, keys, start, steps, weight, masses(rests), side, pool, complete, least, { apartRest, wordRest, broken });
}

/** Where the cells of each row begin, of how many each has. */
function startsOf(counts, count) {
  const start = new Uint32Array(counts.length + 1);
  for (let q = 0; q < counts.length; q++) start[q + 1] = start[q] + counts[q];
  if (start[counts.length] !== count) throw new Error("rows have other cells than there are");
  return start;
}

/** Make each step the key it leads to: steps count from the key before in the row. */
function keysOfSteps(steps, start, keys) {
  for (let q = 0; q + 1 < start.length; q++) {
    for (let i = start[q] + 1; i < start[q + 1]; i++) steps[i] += steps[i - 1];
    if (start[q + 1] > start[q] && steps[start[q + 1] - 1] >= keys) throw new Error("a cell lies beyond the keys");
  }
}

/** By words: to a word the sum over its tokens, from a word their mean. Words are [text, first token, last (exclusive)]. */
export function toWords(cells, rows, columns) {
  const word = new Uint16Array(cells.keys);
  columns.forEach(([, first, last], at) => word.fill(at, first, last));
  const start = new Uint32Array(rows.length + 1), key = [], weight = [], sums = new Float32Array(columns.length);
  const broken = cells.broken === null ? null : Uint8Array.from(rows, ([, first, last]) => (cells.broken.subarray(first, last).includes(1) ? 1 : 0));
  rows.forEach(([, first, last], at) => {
    const seen = new Set(), share = 1 / Math.max(1, last - first);
    for (let i = cells.start[first]; i < cells.start[last] && !broken?.[at]; i++) {
      sums[word[cells.key[i]]] += cells.weight[i] * share;
      seen.add(word[cells.key[i]]);
    }
    for (const k of [...seen].sort((a, b) => a - b)) {
      key.push(k);
      weight.push(sums[k]);
      sums[k] = 0;
    }
    start[at + 1] = key.length;
  });
  const mean = (values) => meansOver(values, rows, broken), { wordRest } = cells;
  const apartRest = wordRest && { first: mean(wordRest.first), separator: mean(wordRest.separator) };
  return new Cells(rows.length, columns.length, start, Uint16Array.from(key), Float32Array.from(weight), mean(cells.rest), 0,
    new Float32Array(0), cells.complete, cells.least, { apartRest, wordRest: apartRest, broken });
}

/** The mean of a number of each token over those of each word; 0 for words that hold no numbers. */
function meansOver(values, words, broken) {
  return Float32Array.from(words, ([, first, last], at) => {
    if (broken?.[at]) return 0;
    return values.subarray(first, last).reduce((sum, x) => sum + x, 0) / Math.max(1, last - first);
  });
}
