// The part of a map that is in view: [first query, last query, first key, last key], in units, exclusive ends.

import { unitAt } from "../data/units.js";

const VIEW_LEAST = 4; // units that stay in view

/** The part that a state asks for (there in tokens), in units; all of it where it asks for none. */
export function viewOf(zoom, rows, columns) {
  const all = [0, rows.length, 0, columns.length];
  if (!zoom || !rows.length || !columns.length) return all;
  const tokens = [rows.at(-1).last, columns.at(-1).last];
  const [q0, q1, k0, k1] = zoom.map((end, i) => Math.max(0, Math.min(end, tokens[i >> 1])));
  if (q1 <= q0 || k1 <= k0) return all;
  return [unitAt(rows, q0), unitAt(rows, q1 - 1) + 1, unitAt(columns, k0), unitAt(columns, k1 - 1) + 1];
}

/** A part in units as a state keeps it; null for all. */
export function zoomOf([q0, q1, k0, k1], rows, columns) {
  if (q0 <= 0 && k0 <= 0 && q1 >= rows.length && k1 >= columns.length) return null;
  return [rows[q0].first, rows[q1 - 1].last, columns[k0].first, columns[k1 - 1].last];
}

/** Closer (factor < 1) or wider around a place, given as parts (0 to 1) of the view from its top and its left. */
export function scaledView([q0, q1, k0, k1], factor, rows, columns, down = 0.5, across = 0.5) {
  return [...scaledEnds(q0, q1, factor, rows, down), ...scaledEnds(k0, k1, factor, columns, across)];
}

function scaledEnds(from, to, factor, length, place) {
  const size = to - from, fresh = Math.round(size * factor);
  const wanted = Math.min(length, Math.max(Math.min(VIEW_LEAST, length), fresh === size && factor !== 1 ? size + Math.sign(factor - 1) : fresh));
  return shiftedEnds(Math.round(from + (size - wanted) * place), wanted, length);
}

function shiftedEnds(from, size, length) {
  const start = Math.max(0, Math.min(from, length - size));
  return [start, start + size];
}

/** The same size of view, moved by units. */
export function movedView([q0, q1, k0, k1], down, across, rows, columns) {
  return [...shiftedEnds(q0 + down, q1 - q0, rows), ...shiftedEnds(k0 + across, k1 - k0, columns)];
}

/** The part that a box drawn on the plot holds, given as parts of the view [top, bottom, left, right]. */
export function boxedView([q0, q1, k0, k1], [top, bottom, left, right], rows, columns) {
  const ends = (from, to, low, high, length) => {
    const start = Math.floor(from + (to - from) * low), stop = Math.ceil(from + (to - from) * high);
    const size = Math.min(length, Math.max(VIEW_LEAST, stop - start));
    return shiftedEnds(start, size, length);
  };
  return [...ends(q0, q1, top, bottom, rows), ...ends(k0, k1, left, right, columns)];
}

/** The cell that a cross at [row, column or null] means: of a row alone its strongest in view, of nothing the strongest in view. */
export function crossedCell({ cells, view: [q0, q1, k0, k1] }, at) {
  if (at && at[1] !== null) return at;
  let best = null;
  for (let q = at ? at[0] : q0; q < (at ? at[0] + 1 : q1); q++) {
    const found = cells.row(q).find(([k]) => k >= k0 && k < k1);
    if (found && (best === null || found[1] > best[2])) best = [q, ...found];
  }
  return best?.slice(0, 2) ?? null;
}
