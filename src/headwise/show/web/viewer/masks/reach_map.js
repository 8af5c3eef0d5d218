// Maps of reach: which layer opens each cell, and beside it how far an edit of a token moves each other one.

import { isolated } from "../draw/dom.js";
import { drawColumnLabel } from "../draw/labels.js";
import { font, shade, css, mix, rgb, dot, inkOn } from "../draw/paint.js";

const REACH_BARS = 64;
const MOST_DOTS = 1400; // a map of more positions is painted from every so many-th row and column
const TICK_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
const FLOW_LEAST = -6; // of the scale of what moves

export const pathColour = (colours) => (colours.dark ? "#ff6b8e" : "#c2003b");
export const opensShade = (layer, last, dark) => shade(1 - (Math.min(0.78, 0.2 * last) * layer) / last, dark);
export const laterColour = (colours) => css(mix(rgb(colours.paper), rgb(colours.line), 0.45));

let reachRuler = null;
/** How wide a text is, in the units of a page. */
export function labelWidth(text, size = 11) {
  reachRuler ??= document.createElement("canvas").getContext("2d");
  reachRuler.font = font(size);
  return reachRuler.measureText(text).width;
}

/** A label in so many characters. */
export const cutLabel = (text, most = 14) => ([...text].length > most ? `${[...text].slice(0, most - 1).join("")}…` : text);

/**
 * Where a map's parts lie: `rows` and `columns` are labels, `wide` the room there is. Labels are left out for numbers
 * where cells are too small for them, or positions have no names.
 */
export function reachLayout(rows, columns, wide, { most = 26, named = true, room = columns.length } = {}) {
  const cuts = (labels) => labels.map((label) => cutLabel(label));
  const widest = (labels) => Math.ceil(Math.max(0, ...labels.map((label) => labelWidth(label))));
  const right = REACH_BARS, numbers = 12 + 7 * String(Math.max(rows.length, columns.length) - 1).length;
  const spell = (left) => Math.min(most, (wide - left - right) / Math.max(room, columns.length));
  const rowWide = named && rows.length <= 200 ? Math.min(110, widest(cuts(rows)) + 10) : 0;
  const words = rowWide > 0 && spell(rowWide) >= 11;
  const left = words ? rowWide : numbers, cell = spell(left);
  const top = words ? Math.min(110, widest(cuts(columns)) + 10) : 18;
  const size = cell >= 2 ? Math.floor(cell) : cell;
  return { left, top, cell: size, rows, columns, words, width: left + size * columns.length + right, height: top + size * rows.length + 6 };
}

/** A canvas of one dot for each cell (or of every so many-th); fill(row, dots, at, count) paints one row of it. */
export function reachCanvas(rows, columns, fill) {
  const high = Math.min(rows, MOST_DOTS), wide = Math.min(columns, MOST_DOTS), made = document.createElement("canvas");
  const image = new ImageData(wide, high), dots = new Uint32Array(image.data.buffer);
  for (let r = 0; r < high; r++) fill(Math.floor((r * rows) / high), dots, r * wide, wide);
  made.width = wide;
  made.height = high;
  made.getContext("2d").putImageData(image, 0, 0);
  return made;
}

/** What each cell of a reach is coloured by: after which layer it opens. */
export function reachDots(first, columns, start, layer, layers, colours) {
  const shades = Array.from({ length: layers + 1 }, (_, at) => dot(opensShade(at, layers, colours.dark)));
  const later = dot(rgbOfCss(laterColour(colours))), never = dot(rgb(colours.unseen));
  return reachCanvas(first.rows - start, columns, (row, dots, at, wide) => {
    const scale = wide / columns;
    first.each(row + start, (from, to, opens) => {
      dots.fill(opens < 0 ? never : opens <= layer ? shades[opens] : later, at + Math.ceil(from * scale), at + Math.ceil(to * scale));
    });
  });
}
const rgbOfCss = (text) => text.match(/\d+/g).map(Number);

/** What each cell of a measured flow is coloured by: how far an edit moves it, on a scale of powers of ten. */
export function flowDots(flow, layer, colours) {
  const columns = flow.tried.length, levels = flow.levels(layer);
  const shades = Array.from({ length: 256 }, (_, level) => (level ? dot(shade(0.08 + 0.92 * logPart(flow.share(level)), colours.dark)) : dot(rgb(colours.unseen))));
  return reachCanvas(levels.length / columns, columns, (row, dots, at, wide) => {
    for (let x = 0; x < wide; x++) dots[at + x] = shades[levels[row * columns + Math.floor((x * columns) / wide)]];
  });
}
const logPart = (moved) => Math.min(1, Math.max(0, (Math.log10(Math.max(moved, 1e-30)) - FLOW_LEAST) / -FLOW_LEAST));

/** Paint a map's dots, its lattice and its labels. */
export function drawReachMap(pen, colours, at, dots, first = 0) {
  const { left, top, cell, rows, columns } = at, wide = cell * columns.length, high = cell * rows.length;
  pen.imageSmoothingEnabled = cell < 1;
  pen.drawImage(dots, left, top, wide, high);
  pen.strokeStyle = colours.line;
  pen.lineWidth = 1;
  if (cell >= 8) for (let i = 1; i < Math.max(columns.length, rows.length); i++) {
    pen.globalAlpha = 0.55;
    if (i < columns.length) reachLine(pen, left + i * cell, top, left + i * cell, top + high);
    if (i < rows.length) reachLine(pen, left, top + i * cell, left + wide, top + i * cell);
  }
  pen.globalAlpha = 1;
  pen.strokeRect(left + 0.5, top + 0.5, wide - 1, high - 1);
  drawReachLabels(pen, colours, at, first);
}

function drawReachLabels(pen, colours, { left, top, cell, rows, columns, words }, first) {
  pen.fillStyle = colours.quiet;
  pen.font = font(11);
  pen.textBaseline = "middle";
  if (words) {
    pen.textAlign = "right";
    rows.forEach((label, r) => pen.fillText(isolated(cutLabel(label)), left - 5, top + (r + 0.5) * cell));
    pen.textAlign = "left";
    columns.forEach((label, k) => drawColumnLabel(pen, label, isolated(cutLabel(label)), left + (k + 0.5) * cell, top - 5, { room: top - 8, step: 11 }));
    return;
  }
  const step = (most) => TICK_STEPS.find((n) => n * cell >= most) ?? 2000;
  const across = step(9 + 7 * String(columns.length - 1).length), down = step(26);
  pen.textAlign = "center";
  for (let k = 0; k < columns.length; k += across) pen.fillText(String(k), left + (k + 0.5) * cell, top / 2);
  pen.textAlign = "right";
  rows.forEach((_, r) => { if ((r + first) % down === 0 || r === 0) pen.fillText(String(r + first), left - 5, top + (r + 0.5) * cell); });
}

/** Bars beside the rows: of how many positions each one holds the input. */
export function drawContexts(pen, colours, { left, top, cell, columns }, counts, most) {
  const x = left + cell * columns.length + 8;
  pen.textAlign = "left";
  pen.font = font(11);
  counts.forEach((n, r) => {
    pen.fillStyle = css(shade(0.55, colours.dark));
    pen.fillRect(x, top + r * cell + cell * 0.2, (n / Math.max(most, 1)) * 26, Math.max(0.6, cell * 0.6));
    pen.fillStyle = colours.ink;
    if (cell >= 11) pen.fillText(String(n), x + 30, top + (r + 0.5) * cell);
  });
  pen.fillStyle = colours.quiet;
  pen.fillText("held", x, top - 8);
}

/** The number of the layer in each open cell, where there is room. */
export function drawOpens(pen, colours, { left, top, cell }, first, start, columns, layer, layers) {
  if (cell < 18) return;
  pen.textAlign = "center";
  pen.font = font(10);
  for (let r = 0; r < first.rows - start; r++) first.each(r + start, (from, to, opens) => {
    if (opens < 0 || opens > layer) return;
    pen.fillStyle = inkOn(opensShade(opens, layers, colours.dark));
    for (let k = from; k < to; k++) pen.fillText(String(opens), left + (k + 0.5) * cell, top + (r + 0.5) * cell);
  });
}

/** A frame around a row, a column or a cell: a box where cells can be told apart, else a line through them. */
export function drawReachFrame(pen, { left, top, cell, rows, columns }, row, column) {
  const x = left + (column ?? 0) * cell, y = top + (row ?? 0) * cell;
  const wide = column === null ? columns.length * cell : cell, high = row === null ? rows.length * cell : cell;
  if (cell >= 6) pen.strokeRect(x, y, wide, high);
  else reachLine(pen, x + (column === null ? 0 : cell / 2), y + (row === null ? 0 : cell / 2), x + (column === null ? wide : cell / 2), y + (row === null ? high : cell / 2));
}

/** A scale of powers of ten under a measured map. */
export function drawLogScale(pen, colours, x, y, wide) {
  for (let i = 0; i < wide; i++) {
    pen.fillStyle = css(shade(0.08 + 0.92 * (i / wide), colours.dark));
    pen.fillRect(x + i, y, 1.5, 8);
  }
  pen.strokeStyle = colours.line;
  pen.strokeRect(x, y, wide, 8);
  pen.fillStyle = colours.quiet;
  pen.font = font(11);
  [[0, "10⁻⁶", "left"], [1 / 3, "10⁻⁴", "center"], [2 / 3, "10⁻²", "center"], [1, "1", "right"]].forEach(([part, text, align]) => {
    pen.textAlign = align;
    pen.fillText(text, x + part * wide, y + 17);
  });
}

/** The cell of a map under a point; the key is null beside the columns. */
export function reachCell({ left, top, cell, rows, columns }, x, y) {
  const k = Math.floor((x - left) / cell), r = Math.floor((y - top) / cell);
  return r < 0 || r >= rows.length ? null : { row: r, column: k < 0 || k >= columns.length ? null : k };
}

export function reachLine(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}
