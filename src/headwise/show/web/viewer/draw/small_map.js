// A map of one head with its labels, small enough to stand beside others.

import { font } from "./paint.js";
import { drawColumnLabel } from "./labels.js";
import { cutTo } from "../map/map_layout.js";
import { drawUnseen } from "../map/map_draw.js";
import { drawCells } from "./paint_cells.js";

const SMALL_LABEL = 11, SMALL_STEP = 12.5, SMALL_MOST = 84, SMALL_LEGEND = 8;

/** Where the parts of a map of rows x columns lie in a width: {left, top, wide, high, width, height}. */
export function smallMapLayout(rows, columns, width, ruler) {
  ruler.font = font(SMALL_LABEL);
  const widest = (units) => Math.min(SMALL_MOST, units.reduce((most, unit) => Math.max(most, ruler.measureText(smallLabel(unit.label)).width), 0)) + 6;
  const left = rows.length * SMALL_STEP * 0.6 < width * 1.3 ? widest(rows) : 8;
  const wide = Math.max(40, width - left - 4);
  const head = columns.length * SMALL_STEP * 0.6 < wide ? widest(columns) : 8;
  const high = Math.max(24, Math.min((wide * rows.length) / Math.max(1, columns.length), wide * 1.4));
  return { left, top: head, wide, high, width, height: head + high + 4 };
}

/** Labels show what is not seen otherwise, in one line. */
const smallLabel = (label) => label.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ +$/, "␣");

/** Draw cells with their labels at x, y; `layout` as above, `how` what drawCells takes. */
export function drawSmallMap(pen, cells, rows, columns, layout, { x = 0, y = 0, colours, hidden = [], ...how }) {
  const { left, top, wide, high } = layout;
  drawUnseen(pen, colours, x + left, y + top, wide, high);
  const dots = drawCells(pen, cells, { x: x + left, y: y + top, width: wide, height: high, colours, clear: true, ...how });
  pen.fillStyle = colours.panel;
  for (const k of hidden) pen.fillRect(x + left + (k * wide) / columns.length, y + top, Math.max(1, wide / columns.length), high);
  pen.strokeStyle = colours.line;
  pen.lineWidth = 1;
  pen.strokeRect(x + left, y + top, wide, high);
  pen.fillStyle = colours.quiet;
  pen.font = font(SMALL_LABEL);
  pen.textBaseline = "middle";
  if (left > 8) {
    pen.textAlign = "right";
    smallLabels(rows, high, (label, middle) => pen.fillText(cutTo(label, SMALL_MOST), x + left - 4, y + top + middle));
  }
  if (top > 8) {
    smallLabels(columns, wide, (label, middle) => drawColumnLabel(pen, label, cutTo(label, SMALL_MOST), x + left + middle, y + top - 4, { room: SMALL_MOST, step: SMALL_LABEL }));
  }
  pen.textAlign = "left";
  return dots;
}

/** Every label, or every second, third, ... where they are too dense to read. */
function smallLabels(units, length, draw) {
  const step = length / Math.max(1, units.length), every = Math.max(1, Math.ceil(SMALL_STEP / step));
  for (let i = 0; i < units.length; i += every) draw(smallLabel(units[i].label), (i + 0.5) * step);
}

/** The cell under a point of a map, [query, key]; null beside it. */
export function smallMapCell(layout, rows, columns, x, y) {
  const q = Math.floor(((y - layout.top) / layout.high) * rows.length), k = Math.floor(((x - layout.left) / layout.wide) * columns.length);
  return q >= 0 && q < rows.length && k >= 0 && k < columns.length ? [q, k] : null;
}

/** A scale from `low` to `high` of the colours `shadeAt(part)` (0 to 1), with words at its ends. */
export function drawLegend(pen, { x, y, width, shadeAt, low, high, colours }) {
  [x, y, width] = [x, y, width].map(Math.round);
  const steps = 64;
  for (let i = 0; i < steps; i++) {
    pen.fillStyle = `rgb(${shadeAt((i + 0.5) / steps).join(",")})`;
    const from = Math.round((i * width) / steps), to = Math.round(((i + 1) * width) / steps);
    pen.fillRect(x + from, y, to - from, SMALL_LEGEND);
  }
  pen.strokeStyle = colours.line;
  pen.lineWidth = 1;
  pen.strokeRect(x, y, width, SMALL_LEGEND);
  pen.fillStyle = colours.ink;
  pen.font = font(SMALL_LABEL);
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.fillText(low, x, y + SMALL_LEGEND + 10);
  pen.textAlign = "right";
  pen.fillText(high, x + width, y + SMALL_LEGEND + 10);
  pen.textAlign = "left";
}
