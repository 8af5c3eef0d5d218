// The map as a figure: labels on both axes, the cells, what may not be seen or was set apart, and the legend.

import { isolated, share } from "../draw/dom.js";
import { css, font, inkOn, shade } from "../draw/paint.js";
import { drawCells } from "../draw/paint_cells.js";
import { drawColumnLabel } from "../draw/labels.js";
import { cutTo, legendLayout } from "./map_layout.js";
import { leastSaid } from "./map_says.js";

const MAP_LABEL = font(11);
const MAP_SMALL = font(10.5);

/**
 * The figure of a map.
 *
 * `drawn` holds the cells and `top` of their scale, `rows` and `columns` (units), the `view`, `seen`, `layout`, `apart`:
 * [{kind, title, way, keys: Set}], `pinned`: [row, column] or null, `words` of its caption, `fine` and `scratch` of drawCells.
 */
export function mapFigure(drawn, { name, title }) {
  const legend = legendLayout(legendParts(drawn), drawn.layout.width - drawn.layout.left);
  const height = drawn.layout.top + drawn.layout.high + 16 + legend.height;
  return {
    name, title, width: drawn.layout.width, height, caption: drawn.caption,
    draw: (pen, colours) => drawMap(pen, colours, drawn, legend),
  };
}

function drawMap(pen, colours, drawn, legend) {
  const { left, top, wide, high } = drawn.layout;
  pen.textBaseline = "middle";
  drawUnseen(pen, colours, left, top, wide, high);
  drawCells(pen, drawn.cells, {
    x: left, y: top, width: wide, height: high, top: drawn.top, colours, region: drawn.view, seen: drawn.seen, clear: true,
    fine: drawn.fine, scratch: drawn.scratch,
  });
  drawApart(pen, colours, drawn);
  drawCellNumbers(pen, colours, drawn);
  pen.strokeStyle = colours.line;
  pen.lineWidth = 1;
  pen.strokeRect(left - 0.5, top - 0.5, wide + 1, high + 1);
  drawRowLabels(pen, colours, drawn);
  drawColumnLabels(pen, colours, drawn);
  drawPinned(pen, colours, drawn);
  drawMapLegend(pen, colours, drawn, legend, left, top + high + 16);
}

/** Slanted lines: there is nothing here, which is not the same as little. */
export function drawUnseen(pen, colours, x, y, wide, high) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, wide, high);
  pen.clip();
  pen.fillStyle = colours.unseen;
  pen.fillRect(x, y, wide, high);
  pen.strokeStyle = colours.line;
  pen.lineWidth = 0.7;
  pen.beginPath();
  for (let at = -high; at < wide; at += 7) {
    pen.moveTo(x + at, y + high);
    pen.lineTo(x + at + high, y);
  }
  pen.stroke();
  pen.restore();
}

/** Columns set apart are marked over the plot; those that are not shown are covered. */
function drawApart(pen, colours, { apart, view, layout }) {
  const [, , k0, k1] = view, cell = layout.wide / (k1 - k0);
  for (const { kind, way, keys } of apart) {
    for (const k of keys) {
      if (k < k0 || k >= k1) continue;
      const x = layout.left + (k - k0) * cell;
      if (way !== "shown") {
        pen.fillStyle = colours.panel;
        pen.fillRect(x, layout.top, Math.max(1, cell), layout.high);
      }
      pen.fillStyle = kind === "first" ? colours.out : colours.quiet;
      pen.fillRect(x, layout.top - 4, Math.max(1.5, cell - (cell > 4 ? 1 : 0)), 3);
    }
  }
}

/** The numbers themselves, where cells are large enough for them. */
function drawCellNumbers(pen, colours, { cells, top, view, layout }) {
  const [q0, q1, k0, k1] = view, wide = layout.wide / (k1 - k0), high = layout.high / (q1 - q0);
  if (wide < 26 || high < 14) return;
  pen.font = font(9.5);
  pen.textAlign = "center";
  for (let q = q0; q < q1; q++) {
    for (let i = cells.start[q]; i < cells.start[q + 1]; i++) {
      const k = cells.key[i], weight = cells.weight[i];
      if (k < k0 || k >= k1 || weight < 0.0095) continue;
      pen.fillStyle = inkOn(shade(weight / top, colours.dark));
      pen.fillText(weight.toFixed(2).replace(/^0/, ""), layout.left + (k - k0 + 0.5) * wide, layout.top + (q - q0 + 0.5) * high + 0.5);
    }
  }
}

/** Every how many-th label there is room for. */
const stepOf = (cell) => Math.max(1, Math.ceil(12 / cell));

/** A label as it is labelWritten: cut to its gutter, its own direction kept. */
function labelWritten(unit, room) {
  if (unit.cutFor !== room) Object.assign(unit, { cutFor: room, cut: isolated(cutTo(unit.label.replace(/\s/g, " "), room)) });
  return unit.cut;
}

function drawRowLabels(pen, colours, { rows, view, layout }) {
  const [q0, q1] = view, cell = layout.high / (q1 - q0), step = stepOf(cell);
  pen.font = MAP_LABEL;
  pen.textAlign = "right";
  pen.fillStyle = step > 1 ? colours.quiet : colours.ink;
  for (let q = q0; q < q1; q += step)
    pen.fillText(labelWritten(rows[q], layout.left - 2 * layout.gap), layout.left - layout.gap, layout.top + (q - q0 + 0.5) * cell);
}

function drawColumnLabels(pen, colours, { columns, view, layout }) {
  const [, , k0, k1] = view, cell = layout.wide / (k1 - k0), step = stepOf(cell), room = layout.top - 2 * layout.gap - 2;
  pen.font = MAP_LABEL;
  pen.fillStyle = step > 1 ? colours.quiet : colours.ink;
  for (let k = k0; k < k1; k += step) {
    const x = layout.left + (k - k0 + 0.5) * cell, foot = layout.top - layout.gap - 2;
    drawColumnLabel(pen, columns[k].label, labelWritten(columns[k], room), x, foot, { room });
  }
}

function drawPinned(pen, colours, { pinned, view, layout }) {
  if (!pinned) return;
  const [q0, q1, k0, k1] = view, [q, k] = pinned, wide = layout.wide / (k1 - k0), high = layout.high / (q1 - q0);
  pen.strokeStyle = colours.out;
  pen.lineWidth = 1.5;
  if (q >= q0 && q < q1) {
    if (k !== null && k >= k0 && k < k1)
      pen.strokeRect(layout.left + (k - k0) * wide - 1, layout.top + (q - q0) * high - 1, Math.max(wide, 3) + 2, Math.max(high, 3) + 2);
    pen.fillStyle = colours.out;
    pen.fillRect(layout.left - 5, layout.top + (q - q0) * high, 3, Math.max(high, 3));
  }
}

/** Whether there are cells that may not be seen. */
function hidesSome(cells, seen) {
  if (!seen) return cells.complete && cells.key.length < cells.queries * cells.keys;
  if (seen.hides === undefined) {
    const whole = ([from, to]) => from <= 0 && to >= cells.keys;
    seen.hides = Array.from({ length: cells.queries }, (_, q) => q).some((q) => !seen(q).some(whole));
  }
  return seen.hides;
}

/** What the legend tells: the scale, and each look that a cell can have in this picture. */
function legendParts({ cells, seen, apart, top, dots }) {
  const found = [{ look: "scale", wide: 118, text: "", top }];
  if (hidesSome(cells, seen)) found.push({ look: "unseen", wide: 14, text: "may not be seen" });
  if (!cells.complete) found.push({ look: "pooled", wide: 14, text: `under ${leastSaid(cells.least)}: mean by region` });
  if (Math.max(...dots) > 1.01) found.push({ look: "", wide: 0, text: `a dot is ${dots.map((n) => n.toFixed(n < 9.95 ? 1 : 0)).join(" × ")} cells: half their largest, half their mean` });
  for (const { kind, title, way, keys } of apart)
    if (keys.size) found.push({ look: kind, way, wide: 14, text: way === "shown" ? title : `${title}: ${way}` });
  return found;
}

function drawMapLegend(pen, colours, drawn, legend, left, top) {
  pen.font = MAP_SMALL;
  for (const { look, way, x, y, wide, text, top: most } of legend.places) {
    const at = left + x, line = top + y;
    if (look === "scale") drawMapScale(pen, colours, at, line, most);
    else if (look === "unseen") drawUnseen(pen, colours, at, line, wide, 10);
    else if (look === "pooled") {
      pen.fillStyle = css(shade((drawn.cells.least / drawn.top) * 0.4, colours.dark));
      pen.fillRect(at, line, wide, 10);
    } else if (look) {
      pen.fillStyle = way === "shown" ? colours.paper : colours.panel;
      pen.fillRect(at, line, wide, 10);
      pen.fillStyle = look === "first" ? colours.out : colours.quiet;
      pen.fillRect(at, line, wide, 3);
    }
    pen.font = MAP_SMALL;
    pen.textAlign = "left";
    pen.fillStyle = colours.quiet;
    pen.fillText(text, at + wide + (wide ? 5 : 0), line + 5.5);
  }
}

function drawMapScale(pen, colours, x, y, top) {
  pen.font = MAP_SMALL;
  pen.fillStyle = colours.quiet;
  pen.textAlign = "left";
  pen.fillText("0", x, y + 5.5);
  for (let i = 0; i < 40; i++) {
    pen.fillStyle = css(shade(i / 39, colours.dark));
    pen.fillRect(x + 10 + i * 2, y, 2.2, 10);
  }
  pen.fillStyle = colours.quiet;
  pen.fillText(share(top), x + 94, y + 5.5);
}
