// The text with its colours as a figure, for a picture to keep.

import { isolated } from "../draw/dom.js";
import { css, font, mix, rgb } from "../draw/paint.js";
import { factsOf } from "../data/facts.js";
import { textWidth } from "../map/map_layout.js";
import { askedOf, looksOf } from "./tokens_read.js";
import { piecesOf, positionsOnly, rulerStep, runsLeft } from "./tokens_text.js";

const STRIP_FONT = font(13);
const STRIP_LINE = 26, STRIP_LOW = 10, RULER_BOX = 5; // of a text, of a ruler

/** The figure of all texts of a scene, as pointing at a token colours them. */
export function tokensFigure(app, state, head, found, width) {
  const scene = app.scene(state.scene), stream = app.streamOf(state.head, scene), { queries, keys } = stream;
  const units = scene.sides.map((side) => app.units(side, state.unit));
  const asked = askedOf(state, units[queries], units[keys]), looks = asked ? looksOf(found, asked, queries === keys) : { gives: [], gets: [] };
  const gives = new Map(looks.gives), gets = new Map(looks.gets), boxes = [];
  let y = 4;
  scene.sides.forEach((side, number) => {
    const laid = linesOfText(side, units[number], width, y);
    for (const box of laid.boxes) {
      boxes.push({ ...box, gives: number === keys ? mostOf(gives, box.units) : 0, gets: number === queries ? mostOf(gets, box.units) : 0,
        asked: asked !== null && box.units.includes(asked.at) && number === (asked.on === "queries" ? queries : keys) });
    }
    y = laid.bottom + 8;
  });
  return {
    name: "tokens", title: "Tokens", width, height: y, caption: [...factsOf(app, state, { head }),
      "Filled: how much the framed token looks at it; underlined: how much it looks at the framed token (colour grows with the root of the weight)."],
    draw: (pen, colours) => drawBoxes(pen, colours, boxes),
  };
}

const mostOf = (weights, numbers) => Math.max(0, ...numbers.map((at) => weights.get(at) ?? 0));

/** Boxes line by line; runs from right to left keep their order within a line. */
function linesOfText(side, units, width, top) {
  if (positionsOnly(side)) return rulerBoxes(units, width, top);
  const boxes = [];
  let line = [], x = 0, y = top;
  const rtl = side.rtl || runsLeft(side.text);
  const flush = () => {
    boxes.push(...boxesPlaced(line, rtl, width, y));
    line = [];
    x = 0;
    y += STRIP_LINE;
  };
  for (const piece of piecesOf(side, units).pieces) {
    const text = piece.text.replace(/\n/g, "↵").trim() || "·", wide = textWidth(text, STRIP_FONT) + 6, gap = /^\s/.test(piece.text) || piece.before ? 3 : 0;
    if (x > 0 && x + wide + gap > width) flush();
    line.push({ text, wide, gap, units: piece.units, left: runsLeft(text) });
    x += wide + gap;
    if (piece.text.includes("\n")) flush();
  }
  flush();
  return { boxes, bottom: y };
}

/** Positions without a text: narrow boxes, every so many-th with its number under it. */
function rulerBoxes(units, width, top) {
  const each = RULER_BOX, across = Math.floor(width / each), step = rulerStep(units.length, each);
  const boxes = units.map(({ label }, at) => ({
    text: "", mark: at % step === 0 ? label : "", wide: each, x: (at % across) * each, y: top + Math.floor(at / across) * STRIP_LINE, units: [at],
  }));
  return { boxes, bottom: top + Math.ceil(units.length / across) * STRIP_LINE };
}

function boxesPlaced(line, rtl, width, y) {
  const order = rtl ? turnedRuns([...line].reverse(), false) : turnedRuns([...line], true);
  let x = rtl ? width - line.reduce((sum, box) => sum + box.wide + box.gap, 0) : 0;
  return order.map((box) => {
    const place = { ...box, x: x + box.gap, y };
    x += box.wide + box.gap;
    return place;
  });
}

/** Runs of boxes of one direction (`left`: from right to left) in turned order. */
function turnedRuns(line, left) {
  const found = [];
  for (let at = 0; at < line.length;) {
    let end = at;
    while (end < line.length && line[end].left === left) end++;
    if (end > at) found.push(...line.slice(at, end).reverse());
    else found.push(line[end++]);
    at = end;
  }
  return found;
}

function drawBoxes(pen, colours, boxes) {
  pen.font = STRIP_FONT;
  pen.textBaseline = "middle";
  pen.textAlign = "center";
  for (const { text, x, y, wide, gives, gets, asked, mark } of boxes) {
    const paper = rgb(colours.paper), high = mark === undefined ? STRIP_LINE - 6 : STRIP_LOW;
    pen.fillStyle = css(mix(paper, rgb(colours.in), Math.sqrt(gives) * 0.5));
    pen.fillRect(x, y, wide - 1, high);
    if (gets > 0.003) {
      pen.fillStyle = css(mix(paper, rgb(colours.out), Math.min(1, Math.sqrt(gets))));
      pen.fillRect(x, y + high - 2, wide - 1, 3);
    }
    pen.strokeStyle = asked ? colours.mark : colours.line;
    pen.lineWidth = asked ? 1.5 : 0.6;
    pen.strokeRect(x, y, wide - 1, high);
    pen.fillStyle = colours.ink;
    if (mark !== undefined) drawMark(pen, mark, x, y + high + 7);
    else pen.fillText(isolated(text), x + wide / 2, y + STRIP_LINE / 2 - 3);
  }
}

function drawMark(pen, mark, x, y) {
  pen.font = font(9.5);
  pen.textAlign = "left";
  pen.fillText(mark, x, y);
  pen.font = STRIP_FONT;
  pen.textAlign = "center";
}
