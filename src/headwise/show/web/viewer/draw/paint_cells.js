// Draws the cells of a pattern, or the difference of two, as a picture: one function for every map there is.
// Where cells are smaller than a dot, it shows the mean of the largest cell under it and of them all.

import { dot, ramp, rgb } from "./paint.js";

// Less to more around nothing (ColorBrewer PuOr, told apart by colour-blind readers); on a dark ground nothing is dark.
const APART_LIGHT = [[179, 88, 6], [241, 163, 64], [254, 224, 182], [247, 247, 247], [216, 218, 235], [153, 142, 195], [84, 39, 136]];
const APART_DARK = [[253, 205, 140], [230, 150, 50], [128, 78, 22], [28, 31, 36], [76, 66, 128], [148, 134, 214], [206, 200, 250]];
const FINE = 2; // dots for a unit of the page, at most
const NONE = -2; // a dot that no query may see

/** The colour of a part (-1 to 1) of the top of a scale around zero, as [r, g, b]. */
export function shadeApart(part, dark = false) {
  const steps = dark ? APART_DARK : APART_LIGHT;
  const place = ((Math.min(Math.max(part, -1), 1) + 1) / 2) * (steps.length - 1), low = Math.min(Math.floor(place), steps.length - 2);
  return steps[low].map((c, i) => Math.round(c + (steps[low + 1][i] - c) * (place - low)));
}

/** 255 shades around zero (number 127) as the numbers of four bytes that an ImageData holds. */
const rampApart = (dark) => Uint32Array.from({ length: 255 }, (_, i) => dot(shadeApart((i - 127) / 127, dark)));

/**
 * Which keys each query may see, as q -> [[from, to (exclusive)], ...], of a mask of `scene.masks`; null where it is not known.
 * A band counts its queries so that the last one sits at the last key.
 */
export function seenBy(mask, queries, keys) {
  if (mask?.rows) {
    return (q) => {
      const runs = mask.rows[q] ?? [], found = [];
      for (let i = 0; i < runs.length; i += 2) found.push([runs[i], runs[i] + runs[i + 1]]);
      return found;
    };
  }
  if (!mask?.band) return null;
  const [back, ahead] = mask.band, shift = keys - queries;
  return (q) => [[back === null ? 0 : Math.max(0, q + shift - back), ahead === null ? keys : Math.min(keys, q + shift + ahead + 1)]];
}

/**
 * Draw cells into a box.
 *
 * `top` is the weight at the dark end (of a difference: at both ends); `colours` those in force (its `dark` says which
 * scale); `region` the part [first query, last query, first key, last key] (exclusive ends) that fills the box, all where
 * it is null; `seen` what seenBy gives, so that cells pooled in a page show only where a query may look; `fine` how many
 * dots a unit of the page may have; `clear` leaves what may not be seen as it was; `scratch`, an empty object that is
 * given again, saves making a picture anew each time.
 * Returns how many cells a dot stands for, [queries, keys]: 1, 1 where every cell is seen alone.
 */
export function drawCells(pen, cells, { x = 0, y = 0, width, height, top, colours, diverging = false, region = null, seen = null,
  fine = FINE, clear = false, scratch = {} }) {
  const [q0, q1, k0, k1] = region ?? [0, cells.queries, 0, cells.keys];
  const high = Math.max(1, Math.min(q1 - q0, Math.round(height * fine))), wide = Math.max(1, Math.min(k1 - k0, Math.round(width * fine)));
  const board = boardOf(scratch, wide, high), shades = diverging ? rampApart(colours.dark) : ramp(colours.dark);
  const none = clear ? 0 : dot(rgb(colours.unseen));
  putDots(board.dots, cells, { q0, q1, k0, k1, high, wide }, seen, { shades, none, scale: (diverging ? 127 : 255) / top, zero: diverging ? 127 : 0 });
  board.pen.putImageData(board.image, 0, 0);
  const smooth = pen.imageSmoothingEnabled;
  pen.imageSmoothingEnabled = false;
  pen.drawImage(board.canvas, x, y, width, height);
  pen.imageSmoothingEnabled = smooth;
  return [(q1 - q0) / high, (k1 - k0) / wide];
}

/** A canvas of so many dots; the same one as before where it has that size. */
function boardOf(scratch, wide, high) {
  if (scratch.wide === wide && scratch.high === high) return scratch;
  const canvas = document.createElement("canvas");
  canvas.width = wide;
  canvas.height = high;
  const image = new ImageData(wide, high);
  return Object.assign(scratch, { wide, high, canvas, image, pen: canvas.getContext("2d"), dots: new Uint32Array(image.data.buffer) });
}

/** Each dot's colour, line by line. */
function putDots(dots, cells, part, seen, look) {
  const { q0, q1, k0, k1, high, wide } = part, down = high / (q1 - q0), across = wide / (k1 - k0);
  const column = Uint32Array.from({ length: k1 - k0 }, (_, k) => Math.floor(k * across)), held = new Uint32Array(wide);
  for (const at of column) held[at]++;
  const peak = new Float32Array(wide), sum = new Float32Array(wide);
  for (let line = 0, q = q0; line < high; line++) {
    underLine(peak, cells, part, Math.min(q1 - 1, Math.floor(q0 + (line + 0.5) / down)), seen);
    sum.fill(0);
    const first = q;
    for (; q < q1 && Math.floor((q - q0) * down) === line; q++) {
      for (let i = cells.start[q]; i < cells.start[q + 1]; i++) {
        const k = cells.key[i];
        if (k < k0) continue;
        if (k >= k1) break;
        const at = column[k - k0], weight = cells.weight[i];
        sum[at] += weight;
        if (peak[at] === NONE || Math.abs(weight) > Math.abs(peak[at])) peak[at] = weight;
      }
    }
    colourLine(dots, line * wide, peak, sum, held, q - first, look);
  }
}

/** What cells that were not kept hold on average, where a query may look. */
function underLine(peak, cells, { k0, k1, wide }, q, seen) {
  const { side, pool } = cells;
  peak.fill(NONE);
  if (cells.isBroken(q) || (cells.complete && !seen)) return;
  const across = (k1 - k0) / wide, row = Math.floor((q * side) / cells.queries) * side;
  for (const [from, to] of seen ? seen(q) : [[0, cells.keys]]) {
    const first = Math.max(0, Math.ceil((from - k0) / across - 0.5)), last = Math.min(wide, Math.ceil((to - k0) / across - 0.5));
    if (!side) peak.fill(0, first, Math.max(first, last));
    else for (let at = first; at < last; at++) peak[at] = pool[row + Math.floor(((k0 + (at + 0.5) * across) * side) / cells.keys)];
  }
}

function colourLine(dots, from, peak, sum, held, rows, { shades, none, scale, zero }) {
  const last = shades.length - 1;
  for (let at = 0; at < peak.length; at++) {
    let value = peak[at];
    if (value === NONE) {
      dots[from + at] = none;
      continue;
    }
    if (sum[at] !== 0 && rows * held[at] > 1) value = (value + sum[at] / (rows * held[at])) / 2;
    const place = Math.round(value * scale) + zero;
    dots[from + at] = shades[place < 0 ? 0 : place > last ? last : place];
  }
}
