// Whom a token looks at and who looks at it: what the strip of tokens colours, and the line beside it.

import { el, share } from "../draw/dom.js";
import { headWords } from "../data/facts.js";
import { NO_NUMBERS, TOO_LITTLE } from "../map/map_says.js";
import { unitAt } from "../data/units.js";

/**
 * What is asked of a state: {on: "queries" or "keys", at: number of the unit that is asked about, other: of the one that
 * is marked beside it or null}; null where nothing is.
 */
export function askedOf(state, rows, columns) {
  const within = (token, units) => token !== null && token !== undefined && units.length > 0 && token < units.at(-1).last;
  const query = within(state.query, rows) ? unitAt(rows, state.query) : null, key = within(state.key, columns) ? unitAt(columns, state.key) : null;
  if (query !== null) return { on: "queries", at: query, other: key };
  return key === null ? null : { on: "keys", at: key, other: null };
}

/** Weights of a row by key, and of a column by query; a token of the text that looks at itself has both. */
export function looksOf(found, asked, same) {
  const gives = asked.on === "queries" ? found.cells.row(asked.at) : [];
  const gets = asked.on === "keys" || same ? found.cells.column(asked.at) : [];
  return { gives, gets };
}

const barPart = (title, weight, kind) =>
  el("span", { class: "hw-part", "data-part": kind }, `${title} `, el("i", { style: `width:${Math.max(1, Math.round(weight * 60))}px` }), ` ${share(weight)}`);

/** The line: the whole of the row in its parts, and the strongest of both directions. */
export function lineOf(app, state, head, { found, asked, looks, rows, columns, ways }) {
  if (!asked) return [el("span", { class: "hw-quiet" }, `Point at a token: whom it looks at, and who looks at it (${headWords(app, head)}).`)];
  const name = (unit) => el("bdi", { class: "hw-name" }, unit.label), line = [];
  const strongest = (links, units) => links.slice(0, 3).flatMap(([at, weight], i) => [i ? ", " : "", name(units[at]), ` ${share(weight)}`]);
  if (asked.on === "queries") {
    const apart = Object.entries(found.apart).map(([kind, held]) => [kind, held[asked.at]]).filter(([kind]) => ways[kind].length);
    const set = new Set(Object.values(ways).flat()), links = looks.gives.filter(([key]) => !set.has(key));
    if (found.cells.isBroken(asked.at)) return [name(rows[asked.at]), NO_NUMBERS];
    line.push(el("span", { class: "hw-gives" }, el("span", {}, name(rows[asked.at]), " looks at"),
      ...apart.map(([kind, weight]) => barPart(PART_TITLES[kind] + wayOf(state, kind), weight, kind)),
      found.sink?.[asked.at] > 0 ? barPart("a learned sink takes", found.sink[asked.at], "sink") : null,
      barPart("others", found.others[asked.at], "others"),
      found.short[asked.at] ? el("span", { class: "hw-quiet" }, `${TOO_LITTLE}: as it is`) : null,
      links.length ? el("span", {}, "strongest: ", ...strongest(links, columns)) : null,
      state.scope === "head" ? null : el("span", { class: "hw-quiet" }, headWords(app, head))));
  }
  if (looks.gets.length) {
    const sum = looks.gets.reduce((all, [, weight]) => all + weight, 0);
    line.push(el("span", { class: "hw-gets" }, name(asked.on === "keys" ? columns[asked.at] : rows[asked.at]), ` is looked at with ${share(sum)} in all, most by `,
      ...strongest(looks.gets, rows)));
  }
  return line;
}

const PART_TITLES = { first: "first token", separator: "separators" };
const PART_WAYS = { first: "first", separator: "separators" };
const wayOf = (state, kind) => (state[PART_WAYS[kind]] === "shown" ? "" : ` (${state[PART_WAYS[kind]]})`);