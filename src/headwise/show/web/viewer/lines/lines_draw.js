// Lines between two columns of tokens, those that look and those looked at; of one head, or of several in their colours.

import { isolated, share } from "../draw/dom.js";
import { css, font, mix, rgb } from "../draw/paint.js";
import { cutTo, textWidth } from "../map/map_layout.js";

export const LINE_STEP = 19; // from one token to the next
const LINE_HEAD = 18;
const LINE_TEXT = font(12);
const LINE_LEAST = 0.01; // weaker lines are not drawn

// Okabe and Ito's colours, told apart by colour-blind readers; more heads than these go round the circle of hues.
const LINE_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d3b", "#7a5cc9", "#7f7f7f"];

/** The colour of the n-th head of a layer. */
export const lineColour = (n) => LINE_COLOURS[n] ?? `hsl(${Math.round((n * 137.5) % 360)}, 62%, 46%)`;

/**
 * The figure of the lines of `sets`: [{cells, colour, title}].
 *
 * `rows` and `columns` are the units; `part` the ones in view, [first query, last query, first key, last key];
 * `asked`: {on, at, other} of tokens_read.js or null; `width`, `caption`; `legend`: whether heads are named under it.
 */
export function linesFigure(drawn) {
  const [q0, q1, k0, k1] = drawn.part, high = Math.max(q1 - q0, k1 - k0) * LINE_STEP;
  const legend = drawn.legend && drawn.sets.length > 1 ? 20 : 0;
  return {
    name: "lines", title: drawn.title, width: drawn.width, height: LINE_HEAD + high + 6 + legend, caption: drawn.caption,
    draw: (pen, colours) => drawLines(pen, colours, drawn, LINE_HEAD + high + 6),
  };
}

/** Where the two columns stand, in a width. */
function linesLayout({ rows, columns, width }) {
  const widest = (units) => (units.wideLine ??= units.reduce((most, { label }) => Math.max(most, textWidth(label, LINE_TEXT)), 0));
  const room = width * 0.3, left = Math.min(room, widest(rows) + 8), right = Math.min(room, widest(columns) + 48);
  const between = width - left - right - 20;
  return { left: left + 6, right: left + 6 + between, leftRoom: left, rightRoom: right - 40 };
}

/** The token under a place: {on, at} or null. */
export function tokenUnder(drawn, x, y) {
  const { left, right } = linesLayout(drawn), [q0, q1, k0, k1] = drawn.part, row = Math.floor((y - LINE_HEAD) / LINE_STEP);
  const queries = x < (left + right) / 2, at = (queries ? q0 : k0) + row;
  if (row < 0 || at >= (queries ? q1 : k1)) return null;
  return { on: queries ? "queries" : "keys", at };
}

const lineOn = (at, from) => LINE_HEAD + (at - from + 0.5) * LINE_STEP;

function drawLines(pen, colours, drawn, foot) {
  const layout = linesLayout(drawn), [q0, q1, k0, k1] = drawn.part;
  pen.textBaseline = "middle";
  pen.font = font(10.5);
  pen.fillStyle = colours.quiet;
  pen.textAlign = "right";
  pen.fillText("looks", layout.left - 6, 8);
  pen.textAlign = "left";
  pen.fillText("is looked at", layout.right + 6, 8);
  pen.lineCap = "round";
  pen.save();
  pen.beginPath();
  pen.rect(layout.left, LINE_HEAD - 8, layout.right - layout.left, Math.max(q1 - q0, k1 - k0) * LINE_STEP + 14);
  pen.clip();
  for (const one of drawn.sets) {
    const set = { ...one, colour: one.colour ?? colours.in };
    drawLinks(pen, set, drawn, layout);
    drawStubs(pen, colours, set, drawn, layout);
  }
  pen.restore();
  pen.globalAlpha = 1;
  drawColumn(pen, colours, drawn, layout, "queries");
  drawColumn(pen, colours, drawn, layout, "keys");
  if (drawn.legend && drawn.sets.length > 1) drawHeads(pen, colours, drawn.sets, foot + 8);
}

/** Whether a line is one of those that are asked for. */
const isAsked = (asked, q, k) => !asked || (asked.on === "queries" ? asked.at === q : asked.at === k);

function drawLinks(pen, { cells, colour }, { part: [q0, q1, k0, k1], asked }, { left, right }) {
  pen.strokeStyle = colour;
  const middle = (left + right) / 2;
  for (let q = q0; q < q1; q++) {
    for (let i = cells.start[q]; i < cells.start[q + 1]; i++) {
      const k = cells.key[i], weight = cells.weight[i];
      if (k < k0 || k >= k1 || weight < LINE_LEAST || !isAsked(asked, q, k)) continue;
      const from = lineOn(q, q0), to = lineOn(k, k0);
      pen.globalAlpha = Math.min(1, weight);
      pen.lineWidth = 0.8 + 3 * Math.min(1, weight);
      pen.beginPath();
      pen.moveTo(left, from);
      pen.bezierCurveTo(middle, from, middle, to, right, to);
      pen.stroke();
    }
  }
}

/** What tokens in view give to, and get from, tokens above and below them: short strokes, with the mass where one is asked for. */
function drawStubs(pen, colours, set, { part, asked }, { left, right }) {
  const [q0, , k0] = part, outside = outsideOf(set.cells, part);
  const stub = (x, y, sign, down, mass, number) => {
    if (mass < LINE_LEAST) return;
    pen.strokeStyle = set.colour;
    pen.globalAlpha = Math.min(1, mass);
    pen.lineWidth = 0.8 + 3 * Math.min(1, mass);
    pen.setLineDash([3, 3]);
    pen.beginPath();
    pen.moveTo(x, y);
    pen.quadraticCurveTo(x + sign * 16, y, x + sign * 24, y + down * 9);
    pen.stroke();
    pen.setLineDash([]);
    if (!number) return;
    pen.globalAlpha = 1;
    pen.fillStyle = colours.quiet;
    pen.font = font(10);
    pen.textAlign = sign > 0 ? "left" : "right";
    pen.fillText(`${down < 0 ? "above" : "below"} ${share(mass)}`, x + sign * 30, y + down * 8);
  };
  const each = (on, from, sign, x) => outside[on].forEach(([above, below], i) => {
    const at = from + i;
    if (asked && !(asked.on === on && asked.at === at)) return;
    stub(x, lineOn(at, from), sign, -1, above, asked !== null);
    stub(x, lineOn(at, from), sign, 1, below, asked !== null);
  });
  each("queries", q0, 1, left);
  each("keys", k0, -1, right);
}

/** Of each token in view the mass that goes out of the view: {queries: [[above, below]], keys: [[above, below]]}. */
export function outsideOf(cells, part) {
  const name = part.join();
  if (cells.outside?.name === name) return cells.outside;
  const [q0, q1, k0, k1] = part, pairs = (n) => Array.from({ length: n }, () => [0, 0]);
  const queries = pairs(q1 - q0), keys = pairs(k1 - k0);
  for (let q = 0; q < cells.queries; q++) {
    const own = q >= q0 && q < q1;
    for (let i = cells.start[q]; i < cells.start[q + 1]; i++) {
      const k = cells.key[i], within = k >= k0 && k < k1;
      if (own && !within) queries[q - q0][k < k0 ? 0 : 1] += cells.weight[i];
      else if (!own && within) keys[k - k0][q < q0 ? 0 : 1] += cells.weight[i];
    }
  }
  return (cells.outside = { name, queries, keys });
}

/** One column of labels; where a token of the other one is asked about, with the weights. */
function drawColumn(pen, colours, drawn, layout, on) {
  const { asked, sets, part } = drawn, first = on === "queries";
  const [from, to] = first ? part.slice(0, 2) : part.slice(2), units = first ? drawn.rows : drawn.columns;
  const x = first ? layout.left - 6 : layout.right + 6, room = first ? layout.leftRoom - 8 : layout.rightRoom;
  pen.textAlign = first ? "right" : "left";
  for (let at = from; at < to; at++) {
    const y = lineOn(at, from), unit = units[at], chosen = asked?.on === on && asked.at === at;
    const weight = asked && asked.on !== on ? meanWeight(sets, asked, at) : null;
    const label = cutTo(unit.label.replace(/\s/g, " "), room, LINE_TEXT), wide = textWidth(label, LINE_TEXT);
    if (weight > 0.003 || chosen) {
      pen.fillStyle = chosen ? colours.mark : css(mix(rgb(colours.paper), rgb(first ? colours.out : colours.in), Math.min(0.45, Math.sqrt(weight) * 0.45)));
      pen.fillRect(first ? x - wide - 3 : x - 3, y - 8, wide + 6, 16);
    }
    pen.font = LINE_TEXT;
    pen.fillStyle = chosen ? colours.paper : colours.ink;
    pen.fillText(isolated(label), x, y);
    if (weight < LINE_LEAST || weight === null) continue;
    pen.font = font(10);
    pen.fillStyle = colours.quiet;
    pen.fillText(share(weight), first ? x - wide - 8 : x + wide + 8, y);
  }
}

function meanWeight(sets, asked, at) {
  const sum = sets.reduce((all, { cells }) => all + ((asked.on === "queries" ? cells.at(asked.at, at) : cells.at(at, asked.at)) ?? 0), 0);
  return sets.length ? sum / sets.length : null;
}

function drawHeads(pen, colours, sets, y) {
  let x = 4;
  pen.font = font(10.5);
  pen.textAlign = "left";
  for (const { colour, title } of sets) {
    pen.fillStyle = colour;
    pen.fillRect(x, y - 4, 9, 9);
    pen.fillStyle = colours.quiet;
    pen.fillText(title, x + 13, y + 1);
    x += 22 + textWidth(title, font(10.5));
  }
}
