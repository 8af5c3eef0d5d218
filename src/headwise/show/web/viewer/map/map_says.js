// What a map says in words: the facts of its caption, the line under the pointer, and what a reader of screens hears.

import { el, isolated, plural, share } from "../draw/dom.js";
import { headWords, oneLine } from "../data/facts.js";
import { ordinal } from "../numbers/ranks.js";
import { unitAt } from "../data/units.js";

const APART_TITLES = { first: "first token", separator: "separators" };
const APART_WAYS = { first: "first", separator: "separators" };

/** Of a row whose weights are no numbers. */
export const NO_NUMBERS = ": no number (its weights are NaN)";

/** Of a row that is not renormalised, since what is left is smaller than what a page can tell. */
export const TOO_LITTLE = "too little of this row is left to renormalise";

/**
 * The keys set apart: [{kind, title, way, keys: Set, mean: what a row gives them on average, short}], of what app.cells
 * gives of a head, or of several heads together; `short` are the rows with too little left to renormalise.
 */
export function apartOf(app, state, ...several) {
  const short = several.reduce((sum, { shortCount }) => sum + shortCount, 0);
  return Object.entries(app.keysApart(state.head, state.scene, state.unit)).map(([kind, keys]) => {
    const mean = meanOfNumbers(several.map(({ apart }) => meanOfNumbers(apart[kind] ?? [])));
    return { kind, title: APART_TITLES[kind], way: state[APART_WAYS[kind]], keys: new Set(keys), mean, short };
  });
}

/** The mean of those that are numbers; NaN where none is. */
function meanOfNumbers(values) {
  let sum = 0, count = 0;
  for (const x of values) if (!Number.isNaN(x)) [sum, count] = [sum + x, count + 1];
  return values.length && !count ? NaN : sum / Math.max(1, count);
}

/** The lines that tell what was set apart, and how much it holds. */
export function apartLines(apart) {
  const said = apart.filter(({ way, keys }) => way !== "shown" && keys.size), scaled = said.filter(({ way }) => way === "renormalised");
  const lines = said.map(({ title, way, keys, mean }) => {
    const holds = keys.size === 1 ? "it holds" : "they hold";
    const rest = way === "renormalised" ? "; the others are scaled to what the row had" : "";
    return `${title} ${way}: ${holds} ${share(mean)} of the attention on average${rest}`;
  });
  const [{ short } = { short: 0 }] = scaled;
  return short ? [...lines, `too little is left in ${plural(short, "row")} to renormalise: shown as ${short === 1 ? "it is" : "they are"}`] : lines;
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
export function cellSaid({ cells, rows, columns, seen, apart, found }, q, k) {
  const from = isolated(rows[q].label), to = isolated(columns[k].label), weight = cells.at(q, k);
  const hidden = apart.find(({ way, keys }) => way !== "shown" && keys.has(k));
  const start = `${from} → ${to}`;
  if (hidden) return `${start}: ${hidden.title}, ${hidden.way}`;
  const besides = `${restSaid(cells, q)}${rowSaid(found, q)}`;
  if (seen && !seen(q).some(([first, last]) => k >= first && k < last)) return `${start}: may not be seen`;
  if (Number.isNaN(weight)) return `${start}${NO_NUMBERS}`;
  if (weight === null) return `${start}: ${cells.complete ? "may not be seen" : `under ${leastSaid(cells.least)}, not kept alone`}${besides}`;
  let higher = 0;
  for (let i = cells.start[q]; i < cells.start[q + 1]; i++) if (cells.weight[i] > weight) higher++;
  return `${start}: ${share(weight)}, ${ordinal(higher + 1)} of its row${besides}`;
}

const restSaid = (cells, q) => (cells.rest[q] > 0.0005 ? `; cells not kept hold ${share(cells.rest[q])} of the row` : "");

/** What else there is to a row: a learned sink, and that it was not scaled. */
function rowSaid({ sink, short }, q) {
  const taken = sink?.[q] > 0 ? `; a learned sink takes ${share(sink[q])} of the row` : "";
  return `${taken}${short[q] ? `; ${TOO_LITTLE}` : ""}`;
}

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
