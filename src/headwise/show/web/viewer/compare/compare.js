// The compare tab: two heads, texts, models, or before and after a cut, side by side with one scale.

import { el, isolated, share } from "../draw/dom.js";
import { changesPart } from "./changes.js";
import { comparedHeight, comparedMaps, compareFigure, compareLayouts, drawCompared } from "./compare_figure.js";
import { openingHead } from "./compare_opening.js";
import { comparePickers } from "./compare_pickers.js";
import { distanceRange, distances, furthest, meanOf, sameKept } from "./differences.js";
import { apartWords } from "../data/facts.js";
import { penOn } from "../draw/paint.js";
import { likeness, pairOf, sameplace } from "./pairs.js";
import { unitOf } from "../data/rows.js";
import { smallMapCell } from "../draw/small_map.js";

const COMPARE_ABOVE = 20; // of a map, above it
const COMPARE_LISTED = 8; // rows that are listed
const COMPARE_DRAWN = ["head", "scene", "withHead", "withScene", "unit", "first", "separators"]; // what asks for other maps

export function comparePanel(app) {
  const pickers = comparePickers(app), changes = changesPart(app);
  const stage = el("div", { class: "hw-compared" }), readout = el("p", { class: "hw-compare-readout" }), numbers = el("div", { class: "hw-compare-numbers" });
  const element = el("section", { class: "hw-compare", "aria-label": "Compare" }, pickers.element, stage, readout, numbers, changes.element);
  const openings = new Set();
  let shown = null; // what is drawn: {pair, maps, layouts, alike, figures: [{canvas, row, column}]}

  async function update(state, changed) {
    const pair = pairOf(app, state);
    pickers.update(state, pair);
    if (pair.b === null) return nothing(state, pair);
    if (await opened(state, pair)) return;
    if (shown !== null && ![...COMPARE_DRAWN, "tab", "theme"].some((name) => changed.has(name))) return point(state);
    try {
      const found = await Promise.all([pair.a, pair.b].map(({ head, at }) => app.cellsNow(head, at, state) ?? app.cells(head, at, state)));
      if (keyOf(app.store.get()) !== keyOf(state)) return; // something else was chosen since, which draws itself
      show(state, pair, found);
    } catch (error) {
      shown = null;
      stage.replaceChildren(el("p", {}, error.message));
    }
  }

  /** Once for two texts: go to the head that differs most where the one looked at cannot; true where another is shown then. */
  async function opened(state, pair) {
    const name = `${pair.a.at} ${pair.b.at}`;
    if (openings.has(name)) return false;
    openings.add(name);
    const head = await openingHead(app, state, pair).catch(() => null), now = app.store.get();
    if (head === null || now.tab !== "compare" || keyOf(now) !== keyOf(state)) return false;
    app.store.set({ head, withHead: head, withScene: pair.b.at });
    return true;
  }

  const keyOf = (state) => COMPARE_DRAWN.map((name) => state[name]).join();

  function nothing(state, pair) {
    shown = null;
    stage.replaceChildren(el("p", { class: "hw-quiet" }, "Choose another head for B, or another text, to see two side by side."));
    readout.textContent = "";
    numbers.replaceChildren();
    changes.show(pair, "none", state);
  }

  function show(state, pair, found) {
    const alike = likeness(app, pair.a, pair.b, state.unit);
    const maps = comparedMaps(app, state, pair, found, alike), colours = app.colours();
    const layouts = compareLayouts(maps, Math.max(260, element.clientWidth - 8), document.createElement("canvas").getContext("2d"));
    const figures = maps.map((map, i) => pointedMap(map, layouts[i], colours));
    shown = { pair, maps, layouts, alike, figures, found };
    stage.replaceChildren(...figures.map((one) => one.element));
    numbers.replaceChildren(...numberParts(state));
    changes.show(pair, alike, state);
    point(state);
  }

  /** A canvas with a cross over it; pointing says where, in all maps that have the place. */
  function pointedMap(map, layout, colours) {
    const canvas = el("canvas", { role: "img", "aria-label": mapLabel(map) });
    drawCompared(penOn(canvas, layout.width, comparedHeight(layout), colours), map, layout, colours);
    const row = el("div", { class: "hw-compare-cross", hidden: true }), column = el("div", { class: "hw-compare-cross", hidden: true });
    const element = el("div", { class: "hw-compared-map" }, canvas, row, column);
    const placeOf = (event) => smallMapCell(layout, map.rows, map.columns, event.offsetX, event.offsetY - COMPARE_ABOVE);
    canvas.addEventListener("mousemove", (event) => !app.store.get().pinned && choose(map, placeOf(event), false));
    canvas.addEventListener("mouseleave", () => !app.store.get().pinned && app.store.set({ query: null, key: null }));
    canvas.addEventListener("click", (event) => choose(map, placeOf(event), true));
    return { element, row, column };
  }

  /** The state names places in A; of a place in B the one that holds the same characters. */
  function choose(map, place, pinned) {
    if (place === null) return app.store.set({ query: null, key: null, pinned: false });
    const [q, k] = map.letter === "B" ? moved(place, shown.pair.b, shown.pair.a) : place, { rows, columns } = shown.maps[0];
    app.store.set({ query: rows[q]?.first ?? null, key: columns[k]?.first ?? null, pinned: pinned && (q ?? k) !== null });
  }
  function moved([query, key], from, to) {
    if (shown.alike === "units") return [query, key];
    if (shown.alike === "none") return [null, null];
    const [sides, others] = [from, to].map(({ head, at }) => app.sidesOf(head, app.scene(at))), { unit } = app.store.get();
    return [query, key].map((at, i) => (at === null ? null : sameplace(app, sides[i], others[i], unit, at)));
  }

  function point(state) {
    if (shown === null) return;
    const [{ rows, columns }] = shown.maps, here = [unitOf(rows, state.query), unitOf(columns, state.key)], there = moved(here, shown.pair.a, shown.pair.b);
    shown.maps.forEach((map, i) => cross(shown.figures[i], shown.layouts[i], map, map.letter === "B" ? there : here));
    readout.replaceChildren(...readoutParts(shown, here, there));
    for (const button of numbers.querySelectorAll("button[data-query]")) button.setAttribute("aria-pressed", String(state.pinned && Number(button.dataset.query) === here[0]));
  }

  function numberParts(state) {
    const { maps, found, alike } = shown, first = firstWords(found);
    if (alike !== "units") {
      const why = alike === "text" ? "The same text in other pieces: pointing at one shows the same characters in the other; no difference can be taken."
        : "Other texts: the maps stand side by side, no difference can be taken.";
      return [el("p", { class: "hw-quiet" }, why), first];
    }
    const apart = distances(found[0].cells, found[1].cells), { rows } = maps[0];
    shown.apart = apart;
    if (keptAlike(found)) return [el("p", {}, el("b", { class: "hw-distance" }, keptSaid(found)), "."), first].filter(Boolean);
    const mean = distanceRange(meanOf(apart.least), meanOf(apart.most), share);
    const list = furthest(apart, COMPARE_LISTED).filter(([, least]) => least > 0).map(([q, least, most]) =>
      el("li", {}, el("button", { type: "button", "data-query": q,
        onclick: () => app.store.set({ query: rows[q].first, key: null, pinned: true }) }, `${isolated(rows[q].label)} ${distanceRange(least, most, share)}`)));
    return [el("p", {}, "Rows are ", el("b", { class: "hw-distance" }, mean), " apart on average (total variation distance: the share of attention that would have to move",
      apartWords(state).length ? `, of what is shown: ${apartWords(state).join(", ")}` : "", ")."), first, list.length ? el("h3", {}, "Rows that differ most") : null, el("ol", { class: "hw-furthest" }, list)].filter(Boolean);
  }

  async function figures(state, width) {
    const pair = pairOf(app, state);
    if (pair.b === null) return [];
    const found = await Promise.all([pair.a, pair.b].map(({ head, at }) => app.cells(head, at, state)));
    const alike = likeness(app, pair.a, pair.b, state.unit), maps = comparedMaps(app, state, pair, found, alike);
    const apart = alike === "units" ? distances(found[0].cells, found[1].cells) : null;
    const said = apart && keptAlike(found) ? `${keptSaid(found)}.` : apart && `Total variation distance of rows: ${distanceRange(meanOf(apart.least), meanOf(apart.most), share)} on average.`;
    return [compareFigure(app, state, pair, maps, said, width), changes.figure(state)].filter(Boolean);
  }
  return { name: "compare", title: "Compare", element, update, figures };
}

const mapLabel = (map) => `${map.title}: map of ${map.rows.length} rows and ${map.columns.length} columns; the scale ends at ${share(map.top)}`;

/** Whether nothing tells A and B apart, though cells under a weight were pooled. */
const keptAlike = (found) => found.some(({ cells }) => !cells.complete) && sameKept(found[0].cells, found[1].cells);
const keptSaid = (found) => `No difference in what is kept (cells under ${share(Math.max(...found.map(({ cells }) => cells.least)))} are pooled)`;

/** What each gives the first token, on average. */
function firstWords(found) {
  const [a, b] = found.map(({ apart }) => (apart.first?.length ? meanOf(apart.first) : null));
  return a === null || b === null ? null : el("p", {}, `The first token gets ${share(a)} of the attention in A, ${share(b)} in B.`);
}

function readoutParts({ maps, found, alike, apart }, here, there) {
  const [query, key] = here;
  if (query === null && key === null) return [alike === "none" ? "Point at a cell to read it; click to keep it." : "Point at a cell to read it in all maps; click to keep it."];
  if (query === null) return [`Column of ${isolated(maps[0].columns[key].label)}`];
  if (key === null) return [`Row of ${isolated(maps[0].rows[query].label)}`, apart ? `: ${distanceRange(apart.least[query], apart.most[query], share)} apart` : ""];
  const parts = maps.slice(0, 2).map((map, i) => {
    const [q, k] = i ? there : here;
    if (q === null || k === null || !map.rows[q] || !map.columns[k]) return `${map.letter}: –`;
    return `${map.letter}: ${isolated(map.rows[q].label)} → ${isolated(map.columns[k].label)} ${cellWords(found[i].cells, q, k)}`;
  });
  const [one, two] = alike === "units" ? found.map(({ cells }) => cells.at(...here)) : [null, null];
  if (one !== null && two !== null) parts.push(`B − A ${two - one > 0 ? "+" : ""}${share(two - one)}`);
  return [parts.join("   ")];
}

const cellWords = (cells, q, k) => {
  const weight = cells.at(q, k);
  return weight !== null ? share(weight) : cells.complete ? "–" : `under ${share(cells.least)}`;
};

/** Lay a cross over the row and the column of a place. */
function cross({ row, column }, layout, map, [query, key]) {
  const high = layout.high / map.rows.length, wide = layout.wide / map.columns.length;
  const lay = (element, on, x, y, width, height) => {
    element.hidden = !on;
    if (on) Object.assign(element.style, { left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` });
  };
  const top = COMPARE_ABOVE + layout.top;
  lay(row, query !== null && query < map.rows.length, layout.left, top + query * high, layout.wide, Math.max(1, high));
  lay(column, key !== null && key < map.columns.length, layout.left + key * wide, top, Math.max(1, wide), layout.high);
}
