// The paths through the layers: who carries to a position, whom it carries on to, and one shortest way.

import { font } from "../draw/paint.js";
import { drawColumnLabel, upright, uprightHeight } from "../draw/labels.js";
import { coneOf } from "./reach_data.js";
import { pathColour, cutLabel, reachLine, labelWidth } from "./reach_map.js";

const PATH_EDGES = 60000; // with more places for lines than this none are drawn

/** Where the picture's parts lie: a column for each position, a row for each layer, the input below. */
export function pathsLayout(reach, labels, wide, named) {
  const left = reach.folded ? 86 : 66, cell = Math.min(26, (wide - left - 8) / reach.length);
  const high = Math.max(9, Math.min(34, Math.floor(330 / reach.layers)));
  const words = named && cell >= 11 && reach.length <= 200;
  const bottom = words ? Math.min(110, Math.ceil(Math.max(0, ...labels.map((label) => (upright(label) ? uprightHeight(label, 11) : labelWidth(cutLabel(label)))))) + 10) : 22;
  return { left, cell, high, words, labels, width: left + cell * reach.length + 8, height: (reach.layers + 1) * high + bottom };
}

/** Draw it for a position q (and with k, the way from k), up to a layer. */
export function drawPaths(pen, colours, reach, at, { query, key, memory, layer }, way) {
  const place = { x: (j) => at.left + (j + 0.5) * at.cell, y: (l) => (reach.layers - l + 0.5) * at.high };
  const into = coneOf(reach, query, layer);
  const goesOn = (l, j) => l <= layer && reach.own.first.at(j, query) >= 0 && reach.own.first.at(j, query) <= l;
  const carries = (l, j) => l <= layer && into[l][j] === 1;
  if (reach.length <= 48 && reach.length ** 2 * reach.layers <= PATH_EDGES) drawPathEdges(pen, colours, reach, place, carries, goesOn, layer);
  drawPathDots(pen, colours, reach, at, place, carries, goesOn);
  drawPathWay(pen, colours, place, { key, memory, layer }, way, Math.max(2, Math.min(3, at.cell * 0.3)));
  drawPathAxes(pen, colours, reach, at, place);
}

function drawPathEdges(pen, colours, reach, { x, y }, carries, goesOn, top) {
  pen.globalAlpha = Math.min(0.45, Math.max(0.07, 4 / reach.length));
  pen.lineWidth = 1;
  for (let layer = 1; layer <= top; layer++) for (let i = 0; i < reach.length; i++) {
    const inner = carries(layer, i);
    reach.own.seen(layer).each(i, (from, to, sees) => {
      for (let j = from; j < to; j++) {
        if (!(sees || i === j) || !(inner || goesOn(layer - 1, j))) continue;
        pen.strokeStyle = inner ? colours.in : colours.out;
        reachLine(pen, x(j), y(layer - 1), x(i), y(layer));
      }
    });
  }
  pen.globalAlpha = 1;
}

/** A dot for each position after each layer; where these are too close, a stripe for those alike. */
function drawPathDots(pen, colours, reach, { cell, high }, { x, y }, carries, goesOn) {
  const size = Math.min(cell, high) * 0.3;
  const kindOf = (layer, j) => (carries(layer, j) ? "in" : goesOn(layer, j) ? "out" : "line");
  for (let layer = 0; layer <= reach.layers; layer++) for (let j = 0; j < reach.length;) {
    const kind = kindOf(layer, j), lit = kind === "line" ? 0.5 : 1;
    let end = j + 1;
    if (cell < 6) while (end < reach.length && kindOf(layer, end) === kind) end++;
    pen.fillStyle = colours[kind];
    if (cell >= 6) {
      pen.beginPath();
      pen.arc(x(j), y(layer), size * (lit === 1 ? 1 : 0.6), 0, 7);
      pen.fill();
    } else pen.fillRect(x(j) - cell / 2, y(layer) - high * 0.3 * lit, cell * (end - j), high * 0.6 * lit);
    j = end;
  }
}

function drawPathWay(pen, colours, { x, y }, { key, memory, layer }, way, wide) {
  if (key === null || way === null) return;
  const crossed = way.find((hop) => hop.stream === "cross");
  if (memory && crossed === undefined) return;
  let at = crossed ? crossed.q : key, height = crossed ? crossed.layer : 0;
  pen.strokeStyle = pen.fillStyle = pathColour(colours);
  pen.lineWidth = wide;
  pen.beginPath();
  pen.arc(x(at), y(height), 4, 0, 7);
  pen.fill();
  pen.beginPath();
  pen.moveTo(x(at), y(height));
  for (const hop of way.filter((one) => one.stream === "self")) {
    pen.lineTo(x(hop.k), y(hop.layer - 1));
    pen.lineTo(x(hop.q), y(hop.layer));
    [height, at] = [hop.layer, hop.q];
  }
  pen.lineTo(x(at), y(Math.max(height, layer)));
  pen.stroke();
}

function drawPathAxes(pen, colours, reach, at, { x, y }) {
  pen.fillStyle = colours.quiet;
  pen.font = font(11);
  pen.textBaseline = "middle";
  const below = (reach.layers + 1) * at.high;
  if (at.words) at.labels.forEach((label, j) => {
    if (upright(label)) return drawColumnLabel(pen, label, label, x(j), below + 4 + uprightHeight(label, 11), { step: 11 });
    pen.save();
    pen.translate(x(j), below + 4);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "right";
    pen.fillText(cutLabel(label), 0, 0);
    pen.restore();
  });
  else {
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((n) => n * at.cell >= 9 + 7 * String(reach.length).length) ?? 2000;
    pen.textAlign = "center";
    for (let j = 0; j < reach.length; j += step) pen.fillText(String(j), x(j), below + 10);
  }
  pen.textAlign = "right";
  const skip = Math.ceil(13 / at.high);
  for (let layer = 0; layer <= reach.layers; layer += skip)
    pen.fillText(layer === 0 ? "input" : layerSaid(reach, layer), at.left - 8, y(layer));
}

/** A row's name; of layers drawn as one, the first and the last. */
function layerSaid({ ids, layers, folded }, layer) {
  const name = (n) => (ids ? ids[n - 1].replace(/^.*\./, "") : `${n}`);
  return folded && layer === layers ? `layers ${name(layer)}–${name(folded)}` : `layer ${name(layer)}`;
}
