// What a reach says of a position or a pair, in words.

import { plural } from "../draw/dom.js";
import { backOf, contextsOf, onwardsOf, pathBetween } from "./reach_data.js";

/** A sentence about what is pointed at. `spoken(j, memory)` names a position, at the start of a sentence or within. */
export function reachSays(reach, { layer, query: q, key: k, memory }, spoken) {
  if (k === null) return saysOfOne(reach, layer, q, memory, spoken);
  const from = spoken(k, memory, true), way = pathBetween(reach, q, k, memory);
  if (way === null) return `${from} never reaches ${spoken(q)}: no path opens in ${plural(reach.layers, "layer")}.`;
  if (!way.length) return `${spoken(q, false, true)} holds its own input from the start.`;
  const where = { self: "layer", cross: "across in layer", encoder: "encoder layer" };
  const named = (hop) => (hop.stream === "encoder" ? reach.encoderIds?.[hop.layer - 1] : reach.ids?.[hop.layer - 1])?.replace(/^.*\./, "") ?? hop.layer;
  const steps = way.map((hop) => ` → ${hop.q} (${where[hop.stream]} ${named(hop)})`).join("");
  const opens = (memory ? reach.across : reach.own).first.at(q, k);
  const yet = opens > layer ? `; after ${plural(layer, "layer")} not yet` : "";
  const since = reach.ids ? `layer ${reach.ids[opens - 1].replace(/^.*\./, "")}` : `layer ${opens}`;
  return `${from} reaches ${spoken(q)} from ${since} on${yet}. A path: ${k}${steps}.`;
}

function saysOfOne(reach, layer, q, memory, spoken) {
  const held = contextsOf(reach.own.first, layer)[q];
  const rest = memory || !reach.across ? "" : `, and of ${plural(contextsOf(reach.across.first, layer)[q], "position")} of the encoder`;
  return `${spoken(q, false, true)}: after ${layer} of ${plural(reach.layers, "layer")} its output can hold the input of ` +
    `${plural(held, "position")} (the furthest ${backOf(reach.own.first, q, layer)} before it)${rest}; ` +
    `its own input can be in the output of ${plural(onwardsOf(reach.own.first, q, layer, reach.start), "position")}.`;
}

/** What the measured flow says of a pair after a layer. */
export function flowSays(flow, { layer, query, key, memory }, spoken) {
  if (flow === null || layer === 0) return "";
  const column = key === null ? -1 : flow.tried.indexOf(key);
  if (key === null) return "";
  if (column < 0) return ` ${spoken(key, memory, true)} was not edited.`;
  const moved = flow.share(flow.levels(layer)[query * flow.tried.length + column]);
  if (moved === 0) return ` Measured: an edit of it moves nothing here after ${plural(layer, "layer")}, beyond rounding.`;
  return ` Measured: an edit of it moves the stream here by ${moved >= 0.01 ? moved.toFixed(2) : moved.toExponential(0)} of its length.`;
}

/** Layers in few words: "all 30 layers", "layers 0 to 4, 6". */
export function layersSaid(numbers, all) {
  if (numbers.length === all && all > 1) return `all ${all} layers`;
  const runs = [];
  for (const n of numbers) {
    const last = runs[runs.length - 1];
    if (last && n === last[1] + 1) last[1] = n;
    else runs.push([n, n]);
  }
  const said = runs.slice(0, 12).map(([a, b]) => (a === b ? `${a}` : b === a + 1 ? `${a}, ${b}` : `${a} to ${b}`)).join(", ");
  return `${numbers.length === 1 ? "layer" : "layers"} ${said}${runs.length > 12 ? ", …" : ""}`;
}
