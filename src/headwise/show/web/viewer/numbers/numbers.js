// The numbers of the head chosen: what it does, where it stands among all heads, its links, one token's row and column.

import { el, isolated, plural, share } from "../draw/dom.js";
import { corpusParts } from "./corpus.js";
import { apartWords, headWords } from "../data/facts.js";
import { farLinks, isPlain, linksSaid } from "./far_links.js";
import { NO_NUMBERS, TOO_LITTLE } from "../map/map_says.js";
import { barLine, barList, rankedLines } from "./number_lines.js";
import { columnNumbers, rowNumbers, seenOf, unitOf } from "../data/rows.js";
import { headOfScope } from "../data/units.js";

const LINKS_LISTED = 6; // links of a token
const NUMBERS_HEAD = ["head", "scene", "unit", "colour"];
const NUMBERS_LINKS = ["head", "scene", "unit", "first", "separators"];
const NUMBERS_TOKEN = [...NUMBERS_HEAD, "query", "key", "pinned", "first", "separators", "scope"];

/** Beside the stage, always there. */
export function numbersPanel(app) {
  const head = el("div", { class: "hw-of-head" }), links = el("div", { class: "hw-of-head" }), token = el("div", { class: "hw-of-token" }), proof = el("div", { class: "hw-evidence" });
  const element = el("section", { class: "hw-numbers", "aria-label": "Numbers" }, head, links, token, proof);

  async function update(state, changed) {
    if (!state.head) return;
    const scene = app.scene();
    if (NUMBERS_HEAD.some((name) => changed.has(name))) {
      head.replaceChildren(...headParts(app, scene, state));
      proof.replaceChildren(...corpusParts(proof, scene, state, howWith(app.index.live)));
    }
    if (NUMBERS_LINKS.some((name) => changed.has(name))) showLinks(scene, state);
    if (!NUMBERS_TOKEN.some((name) => changed.has(name))) return;
    const asked = headOfScope(app, state), now = app.cellsNow(asked);
    if (now !== undefined) return token.replaceChildren(...tokenParts(app, state, asked, now));
    try {
      await app.cells(asked);
    } catch (error) {
      return token.replaceChildren(el("p", { class: "hw-quiet" }, error.message));
    }
    const later = app.store.get(), found = app.cellsNow(asked);
    if (headOfScope(app, later) === asked && later.scene === state.scene && found !== undefined) token.replaceChildren(...tokenParts(app, later, asked, found));
  }

  /** The head's strongest links: as they were found, or of the cells as they are shown once these are there. */
  async function showLinks(scene, state) {
    if (isPlain(state) || state.head.startsWith("mean/")) return links.replaceChildren(...linkParts(app, scene, state, scene.heads[state.head]?.top ?? []));
    const found = app.cellsNow(state.head) ?? await app.cells(state.head).catch(() => null), now = app.store.get();
    if (found === null || NUMBERS_LINKS.some((name) => now[name] !== state[name])) return undefined;
    return links.replaceChildren(...linkParts(app, scene, state, farLinks(found.cells, app.keysApart(state.head))));
  }
  return { name: "numbers", title: "Numbers", element, update };
}

/** How a table comes into what is looked at: into a file, into a notebook, or not yet into a page that is served. */
function howWith(live) {
  if (!live) return "Make the page with --with roles.nc to have them.";
  return live.look ? "A file made with headwise look --html --with roles.nc has them." : "Give tables=[roles] to show() to have them.";
}

function headParts(app, scene, state) {
  const numbers = scene.heads[state.head], words = headWords(app, state.head, scene);
  const title = el("h2", {}, words[0].toUpperCase() + words.slice(1));
  if (numbers === undefined) return [title];
  return [title, ...groupLine(app, scene, state.head),
    el("p", {}, ...doesWords(numbers.does, share(numbers.mass))), ...standings(scene, state, numbers)];
}

/** What it does most, as a sentence. */
function doesWords(does, mass) {
  const name = el("b", {}, does), quiet = (text) => el("span", { class: "hw-quiet" }, text);
  if (does === "spread") return [name, ` ${mass}`, quiet(" of the entropy that its rows could have: it looks at many tokens alike")];
  if (does === "other") return [name, ` ${mass}`, quiet(" of its attention follows none of the rules below")];
  return [name, ` ${mass}`, quiet(" of its attention, on average")];
}

/** The heads that read the same keys and values. */
function groupLine(app, scene, id) {
  const layer = app.layerOf(id, scene), group = scene.heads[id].kv;
  const others = (layer?.heads ?? []).map((head) => `${layer.id}.${head}`).filter((other, i) => layer.kv[i] === group && other !== id);
  if (!others.length) return [];
  const name = (other) => el("button", { type: "button", class: "hw-numbers-link", onclick: () => app.store.set({ head: other }) }, other);
  return [el("p", { class: "hw-quiet" }, `KV group ${group}, shared with `, ...others.flatMap((other, i) => [i ? ", " : "", name(other)]))];
}

/** Its mass under each rule, and every number of this text that heads can be coloured by, with its place among all heads. */
function standings(scene, state, numbers) {
  const ranked = rankedLines(scene, state, undefined), named = new Set((scene.colourings ?? []).map(({ name }) => name));
  const bare = Object.entries(numbers.masses).filter(([rule]) => !named.has(rule)).map(([rule, mass]) => barLine(rule, mass));
  const title = el("h3", {}, `Among ${plural(Object.keys(scene.heads).length, "head")}, on this text`, el("span", { class: "hw-quiet" }, ", highest first"));
  return [barList(bare), ...(ranked.length ? [title, barList(ranked)] : [])];
}

/** The strongest links, at least three units apart. */
function linkParts(app, scene, state, found) {
  if (!found.length) return [];
  const [rows, columns] = app.sidesOf(state.head, scene).map((side) => app.units(side, state.unit));
  return [el("h3", {}, "Strongest far links", el("span", { class: "hw-quiet" }, linksSaid(state))), barList(found.map(([query, key, weight]) => barLine(
    `${isolated(rows[query].label)} → ${isolated(columns[key].label)}`, weight, { onclick: pinned(app, rows[query], columns[key]) })))];
}

/** The row of the token that looks and the column of the one looked at; of a text that looks at itself both of one token.
 * `asked` is the head, or the mean of several, that pointing asks. */
function tokenParts(app, state, asked, found) {
  const stream = app.streamOf(state.head), own = stream.queries === stream.keys;
  const [rows, columns] = app.sidesOf(state.head).map((side) => app.units(side, state.unit));
  const query = unitOf(rows, state.query ?? (own ? state.key : null)), key = unitOf(columns, state.key ?? (own ? state.query : null));
  const parts = [];
  if (asked !== state.head && (query ?? key) !== null) parts.push(el("p", { class: "hw-quiet hw-of-scope" }, `Below: ${headWords(app, asked)}.`));
  if (query !== null) parts.push(...rowParts(app, state, asked, found, query, rows, columns));
  if (key !== null) parts.push(...columnParts(app, state, asked, found, key, rows, columns));
  if (!parts.length) parts.push(el("p", { class: "hw-quiet" }, "Point at a token to see whom it looks at and who looks at it; click to keep it."));
  return parts;
}

/** Tokens are what is pinned, of a word its first. */
const pinned = (app, query, key) => () => app.store.set({ query: query.first, key: key.first, pinned: true });

function rowParts(app, state, asked, found, query, rows, columns) {
  if (found.cells.isBroken(query)) return [el("h3", {}, isolated(rows[query].label), " looks at"), el("p", { class: "hw-quiet hw-no-numbers" }, NO_NUMBERS.slice(2))];
  const numbers = rowNumbers(found, query, app.keysApart(asked, state.scene, state.unit), LINKS_LISTED, seenOf(app, asked, app.scene(), state.unit));
  const chosen = unitOf(columns, state.key);
  const lines = numbers.links.map(([key, weight]) => barLine(isolated(columns[key].label), weight,
    { kind: key === chosen ? "hw-in hw-chosen" : "hw-in", onclick: pinned(app, rows[query], columns[key]) }));
  for (const [kind, keys, mass] of numbers.apart) {
    const way = state[kind === "first" ? "first" : "separators"];
    const name = kind === "first" ? "first token" : plural(keys.length, "separator");
    lines.push(barLine(`${name}${way === "shown" ? "" : `, ${way === "hidden" ? "hidden" : "left out"}`}`, mass, { kind: "hw-apart" }));
  }
  if (found.sink?.[query] > 0) lines.push(barLine("a learned sink takes", found.sink[query], { kind: "hw-apart" }));
  lines.push(...othersLine(numbers.others));
  const scaled = found.short[query] ? [TOO_LITTLE] : apartWords(state).filter((words) => words.includes("scaled"));
  return [el("h3", {}, isolated(rows[query].label), " looks at"), barList(lines, "hw-row"), ...scaled.map((words) => el("p", { class: "hw-quiet" }, `${words}.`))];
}

function columnParts(app, state, asked, found, key, rows, columns) {
  const title = el("h3", {}, isolated(columns[key].label), " is looked at by");
  const apart = app.keysApart(asked, state.scene, state.unit);
  const kind = apart.first.includes(key) ? "first" : apart.separator.includes(key) ? "separators" : null;
  if (kind && state[kind] !== "shown") return [title, el("p", { class: "hw-quiet" }, "This token is set apart; show it again in the bar above.")];
  const numbers = columnNumbers(found, key, LINKS_LISTED);
  const chosen = unitOf(rows, state.query);
  const lines = numbers.links.map(([query, weight]) => barLine(isolated(rows[query].label), weight,
    { kind: query === chosen ? "hw-out hw-chosen" : "hw-out", onclick: pinned(app, rows[query], columns[key]) }));
  lines.push(...othersLine(numbers.others));
  if (!lines.length) lines.push(el("li", { class: "hw-quiet" }, found.cells.complete ? "nobody" : "nobody, as far as cells were kept"));
  const note = found.cells.complete ? [] : [el("p", { class: "hw-quiet" }, `Cells under ${share(found.cells.least)} are not counted.`)];
  return [title, barList(lines, "hw-column"), ...note];
}

function othersLine({ count, mass }) {
  if (count === 0 || (mass <= 0 && !count)) return [];
  return [barLine(count === null ? "the others together" : `${plural(count, "other")} together`, mass, { kind: "hw-others" })];
}
