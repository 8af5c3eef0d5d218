// The grid as a figure for paper: the same cells and colours, with its legend beneath.

import { font, css } from "../draw/paint.js";
import { plural } from "../draw/dom.js";
import { colouringOf, kindCounts, kindTint, numberText, numberTint, standsOut, tintOf } from "./colouring.js";
import { gridShape, isOff } from "./grid_shape.js";
import { textWidth } from "../map/map_layout.js";
import { scaleEnds } from "./grid_legend.js";

const CELL = 16, ROW = 12, LEFT = 34, TOP = 30, GAP = 5, BETWEEN = 24;

/** The figures of the grid: one, of all streams side by side. */
export function gridFigures(app, state) {
  const scene = app.scene(state.scene), colouring = colouringOf(scene, state.colour);
  const sheets = scene.streams.map((stream) => ({ stream, ...gridShape(stream) }));
  let x = 0;
  for (const sheet of sheets) {
    Object.assign(sheet, { x, width: LEFT + Math.max(sheet.columns * CELL + sheet.starts.size * GAP, textWidth(sheet.stream.title || sheet.stream.name, font(10))) });
    x += sheet.width + BETWEEN;
  }
  const width = Math.max(x - BETWEEN, 300), tall = TOP + Math.max(...sheets.map((sheet) => sheet.rows.length)) * ROW;
  const legend = colouring === null ? 0 : colouring.kinds ? Math.ceil(kindCounts(colouring).length / 2) * 16 + 12 : 44;
  return [{
    name: "grid", width, height: tall + legend, title: `Heads by ${colouring?.title.toLowerCase() ?? "layer"}`,
    caption: gridCaption(scene, colouring, state),
    draw(pen, colours) {
      pen.textBaseline = "middle";
      for (const sheet of sheets) drawSheet(pen, colours, sheet, scene, colouring, state);
      if (colouring !== null) (colouring.kinds ? drawKinds : drawScale)(pen, colours, colouring, tall + 12, width);
    },
  }];
}

function gridCaption(scene, colouring, state) {
  const heads = Object.keys(scene.heads).length;
  const named = colouring?.kinds?.some((kind) => kind.name === state.kind);
  return [
    `${scene.model}, ${plural(heads, "head")}: layers down, heads across`,
    colouring === null ? null : `colour: ${colouring.title.toLowerCase()}${colouring.says ? ` (${colouring.says})` : ""}`,
    named ? `only the heads that are "${state.kind}" stand out` : null,
    scene.streams.some((stream) => gridShape(stream).starts.size) ? "a gap parts the heads that share keys and values" : null,
    scene.off?.length ? "a cross: this head is at zero" : null,
    scene.note || null,
  ].filter(Boolean);
}

function drawSheet(pen, colours, sheet, scene, colouring, state) {
  const { stream, columns, starts, rows } = sheet, lefts = [];
  for (let h = 0, x = sheet.x + LEFT; h < columns; h++, x += CELL) lefts.push(starts.has(h) ? (x += GAP) : x);
  pen.font = font(10);
  pen.fillStyle = colours.quiet;
  pen.textAlign = "left";
  if (stream.title || stream.name) pen.fillText(stream.title || stream.name, sheet.x + LEFT, 7);
  pen.textAlign = "center";
  const every = columns <= 32 ? 1 : 4;
  for (let h = 0; h < columns; h += every) pen.fillText(`${h}`, lefts[h] + CELL / 2, TOP - 8);
  rows.forEach((row, at) => {
    const y = TOP + at * ROW;
    pen.fillStyle = colours.quiet;
    pen.textAlign = "right";
    pen.fillText(`${row.number}`, sheet.x + LEFT - 6, y + ROW / 2);
    for (const h of row.heads) drawCell(pen, colours, lefts[h], y, `${row.id}.${h}`, colouring, state, isOff(scene, `${row.id}.${h}`));
  });
}

function drawCell(pen, colours, x, y, id, colouring, state, off) {
  const tint = tintOf(colouring, id, colours);
  pen.globalAlpha = standsOut(colouring, id, state.kind) ? 1 : 0.15;
  pen.fillStyle = tint === null ? colours.line : css(tint);
  pen.fillRect(x, y, CELL - 1, ROW - 1);
  pen.globalAlpha = 1;
  if (off) drawCross(pen, colours, x, y);
  if (id !== state.head && id !== state.withHead) return;
  pen.strokeStyle = id === state.head ? colours.mark : colours.out;
  pen.lineWidth = 1.5;
  pen.strokeRect(x - 0.5, y - 0.5, CELL, ROW);
}

/** What says that a head is at zero. */
function drawCross(pen, colours, x, y) {
  pen.strokeStyle = colours.mark;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const [from, to] of [[y, y + ROW - 1], [y + ROW - 1, y]]) {
    pen.moveTo(x, from);
    pen.lineTo(x + CELL - 1, to);
  }
  pen.stroke();
}

function drawKinds(pen, colours, colouring, top, width) {
  pen.font = font(10);
  pen.textAlign = "left";
  kindCounts(colouring).forEach(([kind, , count], at) => {
    const x = (at % 2) * (width / 2), y = top + Math.floor(at / 2) * 16;
    pen.fillStyle = css(kindTint(kind, 1, colours));
    pen.fillRect(x, y, 11, 11);
    pen.fillStyle = colours.ink;
    pen.fillText(`${kind.name} (${count})`, x + 17, y + 6);
  });
}

function drawScale(pen, colours, colouring, top, width) {
  const [low, high] = scaleEnds(colouring), wide = Math.min(width, 240), steps = 60;
  for (let i = 0; i < steps; i++) {
    pen.fillStyle = css(numberTint(colouring, low + ((high - low) * (i + 0.5)) / steps, colours));
    pen.fillRect((i * wide) / steps, top, wide / steps + 0.5, 10);
  }
  pen.font = font(10);
  pen.fillStyle = colours.ink;
  pen.textAlign = "left";
  pen.fillText(numberText(colouring, low), 0, top + 20);
  pen.textAlign = "right";
  pen.fillText(numberText(colouring, high), wide, top + 20);
}
