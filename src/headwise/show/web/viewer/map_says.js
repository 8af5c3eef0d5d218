// What a map says in words: the facts of its caption, the line under the pointer, and what a reader of screens hears.

import { el, isolated, plural, share } from "./dom.js";
import { headWords, oneLine } from "./facts.js";
import { ordinal } from "./ranks.js";
import { unitAt } from "./units.js";

const APART_TITLES = { first: "first token", separator: "separators" };
const APART_WAYS = { first: "first", separator: "separators" };

/** The keys set apart: [{kind, title, way, keys: Set, mean: what a row gives them on average}]. */
export function apartOf(app, state, found) {
  return Object.entries(app.keysApart(state.head, state.scene, state.unit)).map(([kind, keys]) => {
    const held = found.apart[kind] ?? [];
    const mean = held.length ? held.reduce((sum, weight) => sum + weight, 0) / held.length : 0;
    return { kind, title: APART_TITLES[kind], way: state[APART_WAYS[kind]], keys: new Set(keys), mean };
  });
}

/** The lines that tell what was set apart, and how much it holds. */
export function apartLines(apart) {
  return apart.filter(({ way, keys }) => way !== "shown" && keys.size).map(({ title, way, keys, mean }) => {
    const holds = keys.size === 1 ? "it holds" : "they hold";
    const rest = way === "renormalised" ? "; the others are scaled up to the whole" : "";
    return `${title} ${way}: ${holds} ${share(mean)} of the attention on average${rest}`;
  });
}

/** A threshold as it was given: .01, .005. */
export const leastSaid = (least) => String(least.toPrecision(2) * 1).replace(/^0/, "");

/** The facts under a picture of a map. */
export function mapCaption(app, state, { cells, apart, top, view, rows, columns, exact }) {
  const scene = app.scene(state.scene), unit = state.unit === "words" ? "words (to a word: sum; from a word: mean)" : "tokens";
  const part = view[0] > 0 || view[2] > 0 || view[1] < rows.length || view[3] < columns.length;
  return [
    `${scene.model}, ${headWords(app, state.head, scene)}`,
    `text: ${isolated(oneLine(scene.text))}`,
    ...(scene.note ? [scene.note] : []),
    `${unit}: rows look, columns are looked at`,
    ...apartLines(apart),
    `darkest: ${share(top)}`,
    ...(cells.complete ? [] : [`cells under ${leastSaid(cells.least)} are pooled: mean by region`]),
    ...(exact ? ["all cells of the rows in view"] : []),
    ...(part ? [`rows ${view[0]} to ${view[1] - 1} of ${rows.length}, columns ${view[2]} to ${view[3] - 1} of ${columns.length}`] : []),
  ];
}

/** Who looks at whom, with which weight and rank, and what the row holds besides. */
export function cellSaid({ cells, rows, columns, seen, apart }, q, k) {
  const from = isolated(rows[q].label), to = isolated(columns[k].label), weight = cells.at(q, k);
  const hidden = apart.find(({ way, keys }) => way !== "shown" && keys.has(k));
  const start = `${from} → ${to}`;
  if (hidden) return `${start}: ${hidden.title}, ${hidden.way}`;
  if (seen && !seen(q).some(([first, last]) => k >= first && k < last)) return `${start}: may not be seen`;
  if (weight === null) return `${start}: ${cells.complete ? "may not be seen" : `under ${leastSaid(cells.least)}, not kept alone`}${restSaid(cells, q)}`;
  let higher = 0;
  for (let i = cells.start[q]; i < cells.start[q + 1]; i++) if (cells.weight[i] > weight) higher++;
  return `${start}: ${share(weight)}, ${ordinal(higher + 1)} of its row${restSaid(cells, q)}`;
}

const restSaid = (cells, q) => (cells.rest[q] > 0.0005 ? `; cells not kept hold ${share(cells.rest[q])} of the row` : "");

/** A sentence that sums a map up. */
export function mapSummary(app, state, { cells, rows, columns, top }) {
  const unit = state.unit === "words" ? "word" : "token";
  let best = null;
  for (let q = 0; q < cells.queries; q++)
    for (let i = cells.start[q]; i < cells.start[q + 1]; i++)
      if (best === null || cells.weight[i] > best[2]) best = [q, cells.key[i], cells.weight[i]];
  const strongest = best ? `; the strongest: ${rows[best[0]].label} looks at ${columns[best[1]].label} with ${share(best[2])}` : "";
  return `Map of ${headWords(app, state.head, app.scene(state.scene))}: ${plural(rows.length, unit)} look at ${plural(columns.length, unit)}`
    + `${strongest}; darkest is ${share(top)}`;
}

/** The row of the token that looks and the column of the one looked at, of a state; null where there is none. */
export function pinnedOf(state, rows, columns) {
  if (state.query === null || state.query === undefined || !rows.length || state.query >= rows.at(-1).last) return null;
  const key = state.key !== null && columns.length && state.key < columns.at(-1).last ? unitAt(columns, state.key) : null;
  return [unitAt(rows, state.query), key];
}

/** The strongest cells of the pinned row, for those who cannot see the map. */
export function strongestTable({ cells, rows, columns, pinned }) {
  if (!pinned) return "";
  const [q] = pinned, line = ([k, weight]) => el("tr", {}, el("td", {}, columns[k].label), el("td", {}, share(weight)));
  return el("table", {}, el("caption", {}, `Whom ${rows[q].label} looks at most`),
    el("tr", {}, el("th", { scope: "col" }, "looked at"), el("th", { scope: "col" }, "weight")), cells.row(q, 8).map(line));
}
