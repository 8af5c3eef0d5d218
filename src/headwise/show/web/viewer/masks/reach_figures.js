// The pictures of a reach: its map, the map of what was measured, the map from the encoder, and the paths.

import { plural } from "../draw/dom.js";
import { pathBetween, contextsOf, lastToOpen } from "./reach_data.js";
import { reachCell, drawContexts, drawReachFrame, drawLogScale, drawReachMap, drawOpens, flowDots, reachLayout, pathColour, reachDots } from "./reach_map.js";
import { drawPaths, pathsLayout } from "./reach_paths.js";

const REACH_BESIDE = 560; // a map wants no more room than this beside another
const REACH_GAP = 20;

/** The figures for what is looked at now; `flow` and `crossFlow` are what was measured of the sequence and from its encoder,
 * or null. Each has `point(x, y)`: what a place in it stands for, as state. */
export function reachFigures(reach, { flow, crossFlow }, at, given, wide) {
  const way = at.key === null ? null : pathBetween(reach, at.query, at.key, at.memory);
  const maps = 1 + [flow, reach.across, crossFlow].filter((one) => one !== null).length;
  const room = maps > 1 && wide >= 560 ? Math.max(270, Math.min(REACH_BESIDE, (wide - REACH_GAP * (maps - 1)) / Math.min(maps, 2))) : Math.min(wide, 720);
  const found = [reachFigure(reach, flow, at, given, room, way)];
  if (flow !== null) found.push(flowFigure(reach, flow, at, given, room, false));
  if (reach.across !== null) found.push(acrossFigure(reach, crossFlow, at, given, room, way));
  if (crossFlow !== null) found.push(flowFigure(reach, crossFlow, at, given, room, true));
  found.push(pathsFigure(reach, at, given, Math.min(wide, 720), way));
  return found;
}

const keptFor = (holder, key, make) => {
  holder.kept ??= new Map();
  if (holder.kept.size > 40) holder.kept.clear();
  if (!holder.kept.has(key)) holder.kept.set(key, make());
  return holder.kept.get(key);
};
const reachRows = (given, reach) => (given.labels ?? Array.from({ length: reach.length }, (_, i) => String(i))).slice(reach.start);
const passedSaid = (reach, layer) => (layer === 0 ? "before any layer" : reach.ids ? `after layer ${reach.ids[layer - 1]}` : `after ${layer} of ${reach.layers} layers`);

function reachFigure(reach, flow, at, given, room, way) {
  const { own, start, layers } = reach, columns = given.labels ?? Array.from({ length: reach.length }, (_, i) => String(i));
  const layout = reachLayout(reachRows(given, reach), columns, room, { named: given.labels !== null }), title = flow === null
    ? start ? `Positions ${start} to ${reach.length - 1}; those before come out of a cache` : given.labels ? "Allowed: rows are reached, columns reach" : "Positions: rows are reached, columns reach"
    : "Allowed: columns reach rows";
  const leaks = flow === null || at.layer === 0 ? [] : leaksAt(own.first, flow, at.layer);
  return {
    name: "reach", title, width: layout.width, height: layout.height, caption: [...given.facts, `Whose input the masks let into whose output ${passedSaid(reach, at.layer)}; the shade says which layer opens a cell, dark first.`],
    point: (x, y) => reachPoint(layout, x, y, start, false),
    draw(pen, colours) {
      const dots = keptFor(own.first, `${at.layer} ${colours.dark} ${colours.paper}`, () => reachDots(own.first, reach.length, start, at.layer, lastToOpen(reach), colours));
      drawReachMap(pen, colours, layout, dots, start);
      if (!reach.ids) drawOpens(pen, colours, layout, own.first, start, reach.length, at.layer, lastToOpen(reach));
      drawContexts(pen, colours, layout, contextsOf(own.first, at.layer).slice(start), Math.max(...contextsOf(own.first, layers)));
      if (start) drawCacheEdge(pen, colours, layout, start);
      outlineLeaks(pen, colours, layout, leaks.map(([q, k]) => [q - start, k]));
      drawReachPointed(pen, colours, layout, at, start, at.memory ? null : at.key);
      drawReachHops(pen, layout, way, "self", start, colours);
    },
  };
}

/** What was measured, beside what is allowed; `memory`: of edits in the encoder's text. */
function flowFigure(reach, flow, at, given, room, memory) {
  const names = memory ? given.sources : given.labels, columns = flow.tried.map((key) => names[key]);
  const layout = reachLayout(reachRows(given, reach), columns, room, { room: names.length });
  const leaks = at.layer === 0 ? [] : leaksAt((memory ? reach.across : reach.own).first, flow, at.layer);
  const all = flow.tried.length === names.length, which = all ? "" : `; ${flow.tried.length} of ${names.length} tokens were edited`;
  return {
    name: memory ? "across-flow" : "flow", title: `Measured${memory ? " from the encoder" : ""}: columns move rows${which}`, width: Math.max(layout.width, layout.left + 138), height: layout.height + 26,
    note: leaks.length ? "Outlined: it flows, and no mask allows it." : "",
    caption: [...given.facts, `Largest change of the residual stream ${passedSaid(reach, at.layer)} by an edit of a token (${flow.draws} tried each), as a share of the stream's length; white: no more than rounding${at.layer ? ` (${flow.floor[at.layer - 1]})` : ""}${which}.`],
    point: (x, y) => {
      const found = reachPoint(layout, x, y, reach.start, memory);
      return found === null ? null : { ...found, key: found.key === null ? null : flow.tried[found.key] };
    },
    draw(pen, colours) {
      if (at.layer === 0) {
        pen.fillStyle = colours.quiet;
        pen.textAlign = "left";
        return pen.fillText(`before any layer nothing has moved${memory ? "" : " but the edited token itself"}`, 4, layout.top + 12);
      }
      drawReachMap(pen, colours, layout, keptFor(flow, `${at.layer} ${colours.dark} ${colours.paper}`, () => flowDots(flow, at.layer, colours)));
      outlineLeaks(pen, colours, layout, leaks.map(([q, , column]) => [q, column]));
      const key = at.key === null || at.memory !== memory ? null : flow.tried.indexOf(at.key);
      drawReachPointed(pen, colours, layout, at, 0, key === -1 ? null : key);
      drawLogScale(pen, colours, layout.left, layout.height, Math.max(130, Math.min(220, layout.cell * columns.length)));
    },
  };
}

function acrossFigure(reach, crossFlow, at, given, room, way) {
  const columns = given.sources ?? Array.from({ length: reach.sources }, (_, i) => String(i));
  const layout = reachLayout(reachRows(given, reach), columns, room, { named: given.sources !== null });
  return {
    name: "across", title: "From the encoder: rows are reached, columns reach", width: layout.width, height: layout.height,
    caption: [...given.facts, `Whose input of the encoder the masks let into whose output ${passedSaid(reach, at.layer)}.`],
    point: (x, y) => reachPoint(layout, x, y, reach.start, true),
    draw(pen, colours) {
      const { first } = reach.across;
      drawReachMap(pen, colours, layout, keptFor(first, `${at.layer} ${colours.dark} ${colours.paper}`, () => reachDots(first, reach.sources, reach.start, at.layer, lastToOpen(reach), colours)), reach.start);
      if (!reach.ids) drawOpens(pen, colours, layout, first, reach.start, reach.sources, at.layer, lastToOpen(reach));
      drawContexts(pen, colours, layout, contextsOf(first, at.layer).slice(reach.start), Math.max(...contextsOf(first, reach.layers)));
      if (crossFlow !== null && at.layer > 0) outlineLeaks(pen, colours, layout, leaksAt(first, crossFlow, at.layer).map(([q, k]) => [q - reach.start, k]));
      drawReachPointed(pen, colours, layout, at, reach.start, at.memory ? at.key : null);
      drawReachHops(pen, layout, way, "cross", reach.start, colours);
    },
  };
}

/** A reach of the layers that let something new through and one more: those above carry on the same. */
function foldedReach(reach) {
  const layers = Math.min(reach.layers, lastToOpen(reach) + 1);
  return reach.layers - layers < 2 ? reach : { ...reach, layers, folded: reach.layers };
}

function pathsFigure(whole, state, given, wide, way) {
  const reach = foldedReach(whole), at = { ...state, layer: Math.min(state.layer, reach.layers) };
  const labels = given.labels ?? Array.from({ length: reach.length }, (_, i) => String(i));
  const layout = pathsLayout(reach, labels, wide, given.labels !== null);
  return {
    name: "paths", title: "Paths through the layers", width: layout.width, height: layout.height,
    caption: [...given.facts, `Who carries something to position ${at.query}, and whom it carries on to, up to ${plural(state.layer, "layer")}.${reach.folded ? " Layers that open nothing new are drawn as one." : ""}`],
    point(x) {
      const j = Math.floor((x - layout.left) / layout.cell);
      if (j < 0 || j >= reach.length) return null;
      return at.pinned && !at.memory && j !== at.query ? { query: Math.max(j, reach.start), key: null } : { query: Math.max(j, reach.start), key: null, memory: false };
    },
    draw: (pen, colours) => drawPaths(pen, colours, reach, layout, at, way),
  };
}

/** Where something flows that no mask lets through (`first`: which layer opens each cell): [query, key, column of the key]. */
function leaksAt(first, flow, layer) {
  if (flow.clean) return [];
  return keptFor(flow, `leaks ${layer}`, () => {
    const found = [], levels = flow.levels(layer), wide = flow.tried.length;
    for (let i = 0; i < levels.length; i++) {
      if (!levels[i]) continue;
      const q = Math.floor(i / wide), k = flow.tried[i % wide], opens = first.at(q, k);
      if (opens < 0 || opens > layer) found.push([q, k, i % wide]);
    }
    return found;
  });
}

/** A line around cells, between those and the others. */
function outlineLeaks(pen, colours, { left, top, cell, columns }, cells) {
  if (!cells.length) return;
  const wide = columns.length, inside = new Set(cells.map(([row, column]) => row * wide + column));
  pen.strokeStyle = colours.dark ? "#ff5d5d" : "#d1002f";
  pen.lineWidth = cell < 6 ? 1 : 2;
  pen.beginPath();
  const edge = (x1, y1, x2, y2) => {
    pen.moveTo(left + x1 * cell, top + y1 * cell);
    pen.lineTo(left + x2 * cell, top + y2 * cell);
  };
  for (const [r, k] of cells) {
    if (!inside.has((r - 1) * wide + k)) edge(k, r, k + 1, r);
    if (!inside.has((r + 1) * wide + k)) edge(k, r + 1, k + 1, r + 1);
    if (k === 0 || !inside.has(r * wide + k - 1)) edge(k, r, k, r + 1);
    if (k === wide - 1 || !inside.has(r * wide + k + 1)) edge(k + 1, r, k + 1, r + 1);
  }
  pen.stroke();
}

function drawReachPointed(pen, colours, layout, at, start, column) {
  pen.strokeStyle = colours.mark;
  pen.lineWidth = 1.2;
  if (at.query >= start) drawReachFrame(pen, layout, at.query - start, null);
  if (column !== null) drawReachFrame(pen, layout, null, column);
}

function drawReachHops(pen, { left, top, cell }, way, stream, start, colours) {
  pen.strokeStyle = pathColour(colours);
  pen.lineWidth = cell < 6 ? 1.5 : 2.5;
  for (const hop of way ?? []) if (hop.stream === stream && hop.q >= start)
    pen.strokeRect(left + hop.k * cell, top + (hop.q - start) * cell, Math.max(cell, 3), Math.max(cell, 3));
}

function drawCacheEdge(pen, colours, { left, top, cell, rows }, start) {
  pen.strokeStyle = colours.quiet;
  pen.setLineDash([4, 3]);
  pen.beginPath();
  pen.moveTo(left + start * cell, 4);
  pen.lineTo(left + start * cell, top + rows.length * cell);
  pen.stroke();
  pen.setLineDash([]);
}

function reachPoint(layout, x, y, start, memory) {
  const found = reachCell(layout, x, y);
  return found === null ? null : { query: found.row + start, key: found.column, memory };
}
