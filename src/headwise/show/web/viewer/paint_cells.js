// Draws the cells of a pattern, or the difference of two, as a picture: one function for every map there is.
// Where cells are smaller than half a unit of the page a dot shows the largest of the cells under it.

import { dot, ramp, rgb } from "./paint.js";

// Less to more around nothing (ColorBrewer PuOr, told apart by colour-blind readers); on a dark ground nothing is dark.
const APART_LIGHT = [[179, 88, 6], [241, 163, 64], [254, 224, 182], [247, 247, 247], [216, 218, 235], [153, 142, 195], [84, 39, 136]];
const APART_DARK = [[253, 205, 140], [230, 150, 50], [128, 78, 22], [28, 31, 36], [76, 66, 128], [148, 134, 214], [206, 200, 250]];
const CELL_DOTS = 2; // dots for a unit of the page, at most
const CELL_NONE = -2; // a dot that no query may see

/** The colour of a part (-1 to 1) of the top of a scale around zero, as [r, g, b]. */
export function shadeApart(part, dark = false) {
  const steps = dark ? APART_DARK : APART_LIGHT;
  const place = ((Math.min(Math.max(part, -1), 1) + 1) / 2) * (steps.length - 1), low = Math.min(Math.floor(place), steps.length - 2);
  return steps[low].map((c, i) => Math.round(c + (steps[low + 1][i] - c) * (place - low)));
}

/** 255 shades around zero (number 127) as the numbers of four bytes that an ImageData holds. */
export const rampApart = (dark) => Uint32Array.from({ length: 255 }, (_, i) => dot(shadeApart((i - 127) / 127, dark)));

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
 * it is null; `seen` what seenBy gives, so that cells pooled in a page show only where a query may look.
 * Returns how many cells a dot stands for, [queries, keys]: 1, 1 where every cell is seen alone.
 */
export function drawCells(pen, cells, { x = 0, y = 0, width, height, top, colours, diverging = false, region = null, seen = null }) {
  const [q0, q1, k0, k1] = region ?? [0, cells.queries, 0, cells.keys];
  const high = Math.max(1, Math.min(q1 - q0, Math.ceil(height * CELL_DOTS))), wide = Math.max(1, Math.min(k1 - k0, Math.ceil(width * CELL_DOTS)));
  const values = new Float32Array(high * wide).fill(CELL_NONE);
  const part = { q0, q1, k0, k1, high, wide };
  if (!cells.complete && cells.side > 0) pooledDots(values, cells, part, seen);
  keptDots(values, cells, part);
  const shades = diverging ? rampApart(colours.dark) : ramp(colours.dark), none = dot(rgb(colours.unseen));
  const image = new ImageData(wide, high), dots = new Uint32Array(image.data.buffer);
  const scale = (diverging ? 127 : 255) / top, zero = diverging ? 127 : 0, last = shades.length - 1;
  for (let i = 0; i < dots.length; i++)
    dots[i] = values[i] === CELL_NONE ? none : shades[Math.max(0, Math.min(last, Math.round(values[i] * scale) + zero))];
  const canvas = document.createElement("canvas");
  canvas.width = wide;
  canvas.height = high;
  canvas.getContext("2d").putImageData(image, 0, 0);
  const smooth = pen.imageSmoothingEnabled;
  pen.imageSmoothingEnabled = false;
  pen.drawImage(canvas, x, y, width, height);
  pen.imageSmoothingEnabled = smooth;
  return [(q1 - q0) / high, (k1 - k0) / wide];
}

/** The cells that were kept; of several under one dot the one furthest from nothing. */
function keptDots(values, cells, { q0, q1, k0, k1, high, wide }) {
  const down = high / (q1 - q0), across = wide / (k1 - k0);
  for (let q = q0; q < q1; q++) {
    const line = Math.floor((q - q0) * down) * wide;
    for (let i = cells.start[q]; i < cells.start[q + 1]; i++) {
      const k = cells.key[i];
      if (k < k0 || k >= k1) continue;
      const at = line + Math.floor((k - k0) * across), had = values[at];
      if (had === CELL_NONE || Math.abs(cells.weight[i]) > Math.abs(had)) values[at] = cells.weight[i];
    }
  }
}

/** What cells that were not kept hold on average, where a query may look. */
function pooledDots(values, cells, { q0, q1, k0, k1, high, wide }, seen) {
  const { side, pool } = cells, down = (q1 - q0) / high, across = (k1 - k0) / wide;
  for (let row = 0; row < high; row++) {
    const q = Math.floor(q0 + (row + 0.5) * down), line = Math.floor((q * side) / cells.queries) * side;
    for (const [from, to] of seen ? seen(q) : [[0, cells.keys]]) {
      const first = Math.max(0, Math.ceil((from - k0) / across - 0.5)), last = Math.min(wide, Math.ceil((to - k0) / across - 0.5));
      for (let column = first; column < last; column++) {
        const k = Math.floor(k0 + (column + 0.5) * across);
        values[row * wide + column] = pool[line + Math.floor((k * side) / cells.keys)];
      }
    }
  }
}
