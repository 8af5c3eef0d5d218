// Tokens and words: which of them holds a token, and what each may see. The state names tokens, whatever is shown.

import { seenBy } from "../draw/paint_cells.js";

/** The number of the unit that holds a token. */
export function unitAt(units, token) {
  let low = 0, high = units.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (units[middle].first <= token) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The layers that a head, or the mean of several, is of. */
export function layersOf(app, head, scene) {
  const stream = app.streamOf(head, scene), own = app.layerOf(head, scene);
  if (own) return [own];
  const one = stream.layers.filter((layer) => head === `mean/${layer.id}`);
  return one.length ? one : stream.layers;
}

/** Which units each unit may see, q -> [[from, to], ...]; null where the page does not say, or layers differ. */
export function seenUnits(app, head, at, unit) {
  const scene = app.scene(at), masks = new Set(layersOf(app, head, scene).map((layer) => layer.mask));
  if (masks.size !== 1 || !scene.masks) return null;
  const [number] = masks, [rows, columns] = app.sidesOf(head, scene);
  const name = [number, unit, rows.name, columns.name, rows.tokens.length, columns.tokens.length].join();
  const known = (scene.seenAs ??= new Map());
  if (!known.has(name)) {
    const seen = seenBy(scene.masks[number], rows.tokens.length, columns.tokens.length);
    known.set(name, seen && unit === "words" ? wordRuns(seen, app.units(rows, unit), app.units(columns, unit)) : seen);
  }
  return known.get(name);
}

/** A word may see what one of its tokens may. */
function wordRuns(seen, rows, columns) {
  return (q) => {
    const runs = [];
    for (let token = rows[q].first; token < rows[q].last; token++)
      for (const [from, to] of seen(token)) if (to > from) runs.push([unitAt(columns, from), unitAt(columns, to - 1) + 1]);
    return joinedRuns(runs);
  };
}

function joinedRuns(runs) {
  const found = [];
  for (const [from, to] of runs.sort((a, b) => a[0] - b[0])) {
    const last = found.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else found.push([from, to]);
  }
  return found;
}

/** The head whose cells a scope asks for: of the head itself, of its layer on average, or of all heads. */
export function headOfScope(app, state) {
  if (state.scope === "head" || !state.head) return state.head;
  const scene = app.scene(state.scene), stream = app.streamOf(state.head, scene);
  if (state.scope === "all") return `mean/${stream.name}`;
  const [layer, ...others] = layersOf(app, state.head, scene);
  return layer && !others.length ? `mean/${layer.id}` : state.head;
}
