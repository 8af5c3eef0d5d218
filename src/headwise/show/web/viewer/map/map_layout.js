// Where the parts of a map stand: gutters for labels, the plot, the legend. It depends on the text and the width alone,
// so that nothing moves from head to head or while zooming.

import { font } from "../draw/paint.js";
import { upright, uprightHeight } from "../draw/labels.js";

const MAP_TEXT = font(11);
const MAP_GAP = 6;
const CELL_MOST = 44; // units of the page that a cell may have
const MAP_TALL = 760;
const textRuler = { pen: null };

/** How wide a text is in a font. */
export function textWidth(text, given = MAP_TEXT) {
  textRuler.pen ??= document.createElement("canvas").getContext("2d");
  textRuler.pen.font = given;
  return textRuler.pen.measureText(text).width;
}

/** A text cut to a width, with … where it was cut. */
export function cutTo(text, width, given = MAP_TEXT) {
  if (textWidth(text, given) <= width) return text;
  const letters = Array.from(text);
  let low = 0, high = letters.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(`${letters.slice(0, middle).join("")}…`, given) <= width) low = middle;
    else high = middle - 1;
  }
  return `${letters.slice(0, low).join("")}…`;
}

const lengthDown = (label) => 4 + (upright(label) ? uprightHeight(label) : textWidth(label));

function widestOf(units, name, length) {
  return (units[name] ??= units.reduce((most, unit) => Math.max(most, length(unit.label)), 0));
}

/** The places of a map of so many rows and columns (lists of units) in a width. */
export function mapLayout(width, rows, columns) {
  const small = Math.min(130, width * 0.22), many = Math.max(rows.length, columns.length) > 24;
  const least = many ? 56 : 24;
  const left = Math.ceil(Math.max(least, Math.min(small, widestOf(rows, "widest", (label) => textWidth(label)) + 2 * MAP_GAP)));
  const top = Math.ceil(Math.max(least, Math.min(small, widestOf(columns, "tallest", lengthDown) + 2 * MAP_GAP)));
  const room = Math.max(60, width - left - 12), across = Math.max(1, columns.length), down = Math.max(1, rows.length);
  const cell = Math.min(CELL_MOST, room / across, Math.max(MAP_TALL / down, room / across / 6));
  const wide = Math.floor(Math.max(Math.min(room, 60), Math.min(room, cell * across)));
  const high = Math.floor(Math.max(Math.min(cell * down, MAP_TALL), Math.min(20 * down, 140)));
  return { width, left, top, wide, high, gap: MAP_GAP };
}

/** The places of a legend's parts ({text, wide: of its swatch}) in lines of a width, and how high they are. */
export function legendLayout(parts, width) {
  let x = 0, y = 0;
  const places = parts.map((part) => {
    const size = part.wide + 5 + textWidth(part.text, font(10.5)) + 16;
    if (x > 0 && x + size > width) {
      x = 0;
      y += 17;
    }
    const place = { ...part, x, y };
    x += size;
    return place;
  });
  return { places, height: y + 17 };
}
