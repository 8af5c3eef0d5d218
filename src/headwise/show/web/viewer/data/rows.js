// One token's row and column of a pattern in numbers: the strongest, what is set apart, and the others together.

import { seenBy } from "../draw/paint_cells.js";

/** The mask that says whom a head may attend to, as q -> runs of keys; null where the page does not know, or by words. */
export function seenOf(app, head, scene = app.scene(), unit = app.store.get().unit) {
  if (unit === "words") return null;
  const layer = app.layerOf(head, scene) ?? app.streamOf(head, scene).layers.find((one) => head === `mean/${one.id}`);
  const [rows, columns] = app.sidesOf(head, scene);
  const alike = layer ?? onlyMask(app.streamOf(head, scene));
  return alike?.mask === undefined ? null : seenBy(scene.masks?.[alike.mask], rows.tokens.length, columns.tokens.length);
}
const onlyMask = (stream) => (new Set(stream.layers.map((layer) => layer.mask)).size === 1 ? stream.layers[0] : null);

/**
 * The row of query q: {links: [[key, weight]], apart: [[kind, keys, mass]], others: {count, mass}}; `count` is null where
 * cells were pooled and nobody knows how many there are. Weights, masses and others together are the row's whole.
 */
export function rowNumbers(found, q, keysApart, most, seen) {
  const { cells, apart, othersRest } = found;
  const set = new Set(Object.values(keysApart).flat());
  const all = cells.row(q).filter(([key]) => !set.has(key));
  const links = all.slice(0, most), rest = all.slice(most);
  const hidden = Object.entries(apart).map(([kind, mass]) => [kind, keysApart[kind], mass[q]]).filter(([, keys, mass]) => keys.length && mass > 0);
  const kept = rest.reduce((sum, [, weight]) => sum + weight, 0);
  return { links, apart: hidden, others: { count: countOthers(cells, q, set, links.length, seen, rest.length), mass: kept + othersRest[q] } };
}

function countOthers(cells, q, set, listed, seen, kept) {
  if (cells.complete) return kept;
  if (seen === null) return null;
  let count = 0;
  for (const [from, to] of seen(q)) count += to - from;
  for (const key of set) if (seen(q).some(([from, to]) => key >= from && key < to)) count -= 1;
  return Math.max(0, count - listed);
}

/** The column of key k: {links: [[query, weight]], others: {count, mass}}, of the cells that were kept. */
export function columnNumbers(found, k, most) {
  const all = found.cells.column(k);
  const rest = all.slice(most);
  return { links: all.slice(0, most), others: { count: rest.length, mass: rest.reduce((sum, [, weight]) => sum + weight, 0) } };
}

/** The unit (token or word) that holds a token, as its number; null where there is none. */
export function unitOf(units, token) {
  if (token === null || token === undefined || !units.length) return null;
  if (units[token]?.first === token && units[token].last === token + 1) return token;
  const found = units.findIndex(({ first, last }) => first <= token && token < last);
  return found < 0 ? null : found;
}
