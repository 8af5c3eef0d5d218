// The grid of layers x heads, one for each stream, coloured by what heads do or by any number.

import { el } from "../draw/dom.js";
import { css } from "../draw/paint.js";
import { colouringOf, standsOut, tintOf, toldOf } from "./colouring.js";
import { gridShape, isOff, placeOf } from "./grid_shape.js";
import { legendOf, markOnScale } from "./grid_legend.js";
import { gridFigures } from "./grid_figure.js";

/** The size of a cell, by how many there are beside and below one another. */
const WIDTHS = [[12, 20], [16, 17], [32, 11], [64, 8], [Infinity, 6]];
const HEIGHTS = [[12, 17], [36, 14], [48, 11], [Infinity, 8]];
const sizeFor = (sizes, count) => sizes.find(([most]) => count <= most)[1];

export function gridPanel(app) {
  const tables = el("div", { class: "hw-tables" }), legend = el("div", { class: "hw-legend" });
  const readout = el("p", { class: "hw-grid-says", "aria-hidden": "true" });
  const more = el("p", { class: "hw-grid-more hw-quiet", "aria-hidden": "true" }, "scroll for more layers ↓");
  const element = el("section", { class: "hw-grids", "aria-label": "Heads" }, tables, more, readout, legend);
  const grid = { app, element, tables, legend, readout, cells: new Map(), scene: null, chosen: null, beside: null, focus: false };
  listen(grid);
  return { name: "grid", title: "Heads", element, update: (state, changed) => updateGrid(grid, state, changed), figures: (state) => gridFigures(app, state) };
}

function updateGrid(grid, state, changed) {
  const scene = grid.app.scene(), fresh = grid.scene !== scene;
  if (fresh) buildGrid(grid, scene);
  if (fresh || changed.has("colour") || changed.has("theme")) colourGrid(grid, state);
  else if (changed.has("kind")) colourGrid(grid, state);
  if (fresh || changed.has("head") || changed.has("scene")) chooseCell(grid, state.head);
  const here = (state.withScene ?? state.scene) === state.scene ? state.withHead : "";
  mark(grid, "beside", here, "hw-beside");
  readOut(grid, state.head);
  markOnScale(grid.legend, colouringOf(scene, state.colour), state.head);
}

function buildGrid(grid, scene) {
  grid.scene = scene;
  grid.cells.clear();
  grid.chosen = grid.beside = null;
  grid.tables.replaceChildren(...scene.streams.map((stream) => el("figure", {},
    scene.streams.length > 1 ? el("figcaption", {}, streamTitle(stream)) : null, tableOf(grid, stream, scene))));
}

const streamTitle = (stream) => stream.title || stream.name || "heads";

function tableOf(grid, stream, scene) {
  const { columns, starts, rows } = gridShape(stream);
  const every = rows.length > 48 ? 4 : 1; // low rows have no room for every number
  const body = rows.map((row, at) => {
    const line = el("div", { role: "row" }, el("span", { role: "rowheader", "aria-label": `layer ${row.number}` }, at % every ? "" : `${row.number}`));
    const there = new Set(row.heads);
    for (let h = 0; h < columns; h++) line.append(cellOf(grid, scene, `${row.id}.${h}`, there.has(h), starts.has(h)));
    return line;
  });
  const table = el("div", { role: "grid", class: "hw-grid", "aria-label": `${streamTitle(stream)}: layers down, heads across`,
    "aria-rowcount": rows.length + 1, "aria-colcount": columns + 1, "aria-readonly": "true" }, columnNames(columns, starts), body);
  table.style.setProperty("--wide", `${sizeFor(WIDTHS, columns)}px`);
  table.style.setProperty("--high", `${sizeFor(HEIGHTS, rows.length)}px`);
  return table;
}

function columnNames(columns, starts) {
  const every = columns <= 16 ? 1 : columns <= 32 ? 4 : 8;
  const names = Array.from({ length: columns }, (_, h) => el("span", {
    role: "columnheader", class: starts.has(h) ? "hw-starts" : null, "aria-label": `head ${h}`,
  }, h % every === 0 ? `${h}` : ""));
  return el("div", { role: "row" }, el("span", { role: "columnheader" }, "layer"), names);
}

function cellOf(grid, scene, id, there, starts) {
  const cell = document.createElement("span");
  cell.setAttribute("role", "gridcell");
  cell.className = `${there ? "" : "hw-missing"}${starts ? " hw-starts" : ""}`;
  if (!there) {
    cell.setAttribute("aria-label", `${id} is not in this model`);
    return cell;
  }
  cell.dataset.head = id;
  cell.tabIndex = -1;
  grid.cells.set(id, cell);
  return cell;
}

function colourGrid(grid, state) {
  const { app, scene } = grid, colouring = colouringOf(scene, state.colour), colours = app.colours(), off = new Set(scene.off ?? []);
  for (const [id, cell] of grid.cells) {
    const tint = tintOf(colouring, id, colours), out = standsOut(colouring, id, state.kind);
    cell.style.background = tint === null ? "" : css(tint);
    cell.classList.toggle("hw-blank", tint === null);
    cell.classList.toggle("hw-dim", !out);
    cell.classList.toggle("hw-at-zero", off.has(id));
    cell.setAttribute("aria-label", [id, off.has(id) ? "at zero here" : "", toldOf(colouring, id) || "no number", shared(scene, id)].filter(Boolean).join(", "));
  }
  grid.legend.replaceChildren(...legendOf(app, colouring));
}

/** Which keys and values a head reads, where heads share them. */
function shared(scene, id) {
  const { stream } = placeOf(scene, id), kv = scene.heads[id]?.kv;
  return gridShape(scene.streams[stream]).starts.size && kv !== undefined && kv !== null ? `keys and values ${kv}` : "";
}

function chooseCell(grid, head) {
  const held = grid.element.contains(document.activeElement?.shadowRoot?.activeElement ?? document.activeElement);
  const before = grid.chosen ?? grid.entry;
  if (before) before.tabIndex = -1;
  mark(grid, "chosen", head, "hw-grid-here");
  grid.entry = grid.chosen ?? grid.cells.values().next().value;
  if (grid.entry) grid.entry.tabIndex = 0;
  if (held || grid.focus) grid.chosen?.focus({ preventScroll: true });
  if (held) grid.chosen?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function mark(grid, name, head, kind) {
  const next = grid.cells.get(head) ?? null;
  if (grid[name] === next) return;
  grid[name]?.classList.remove(kind);
  next?.classList.add(kind);
  if (name === "chosen") {
    for (const one of [grid.chosen, next]) one?.setAttribute("aria-selected", String(one === next));
    grid.chosen?.removeAttribute("aria-current");
    next?.setAttribute("aria-current", "true");
  }
  grid[name] = next;
}

function readOut(grid, head) {
  const { scene } = grid, colouring = colouringOf(scene, grid.app.store.get().colour);
  const mean = head.startsWith("mean/") ? head.slice(5) : null;
  const what = mean === null ? toldOf(colouring, head) : "";
  const name = mean === null ? head : /\d/.test(mean) ? `mean of layer ${mean}` : `mean of all heads${mean && ` of ${mean}`}`;
  grid.readout.replaceChildren(el("b", {}, name), ` ${[isOff(scene, head) ? "at zero here" : "", what, shared(scene, head)].filter(Boolean).join(" · ")}`);
}

/** Whether there is more below than is seen, told where the grid is low. */
function watchEnd(tables) {
  const tell = () => tables.classList.toggle("hw-cut-off", tables.scrollTop + tables.clientHeight < tables.scrollHeight - 4);
  tables.addEventListener("scroll", tell, { passive: true });
  new ResizeObserver(tell).observe(tables);
}

function listen(grid) {
  watchEnd(grid.tables);
  const headAt = (event) => event.target.closest?.("[data-head]")?.dataset.head;
  grid.tables.addEventListener("click", (event) => {
    const head = headAt(event);
    if (head === undefined) return;
    grid.app.store.set({ head });
    grid.cells.get(head)?.focus({ preventScroll: true });
  });
  grid.tables.addEventListener("pointerover", (event) => readOut(grid, headAt(event) ?? grid.app.store.get().head));
  grid.tables.addEventListener("pointerleave", () => readOut(grid, grid.app.store.get().head));
}
