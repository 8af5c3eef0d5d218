// The map of one head: rows are the tokens that look, columns the ones looked at, darker is more.

import { el, isolated } from "../draw/dom.js";
import { penOn, scaleTop } from "../draw/paint.js";
import { seenUnits } from "../data/units.js";
import { headsBeside, watchLook, whenIdle } from "../data/look.js";
import { mapLayout } from "./map_layout.js";
import { mapFigure } from "./map_draw.js";
import { exactRows } from "./map_exact.js";
import { listenOnMap, PANS, panMap, zoomAll, zoomIn, zoomOut } from "./map_moves.js";
import { mapOverlay } from "./map_overlay.js";
import { apartLines, apartOf, cellSaid, mapCaption, mapSummary, pinnedOf, strongestTable } from "./map_says.js";
import { crossedCell, movedView, viewOf, zoomOf } from "./map_view.js";

const MAP_DRAWS = ["head", "scene", "unit", "first", "separators", "zoom", "pinned", "tab", "theme"];

const MAP_LEGEND = 420; // what a picture has at least, for its legend

export function mapPanel(app) {
  const canvas = el("canvas", { role: "img", tabindex: 0, "aria-label": "Map of the head" });
  const plot = el("div", { class: "hw-map-plot" }, canvas);
  const overlay = mapOverlay(plot);
  const buttons = [["+", "Zoom in", zoomIn], ["−", "Zoom out", zoomOut], ["All", "Show the whole map", zoomAll]].map(([text, label, run]) =>
    el("button", { type: "button", "aria-label": label, title: label, onclick: () => run(moves) }, text));
  const read = el("p", { class: "hw-map-read" }), apartLine = el("p", { class: "hw-map-apart" }), table = el("div", { class: "hw-hidden" });
  const hint = el("span", { class: "hw-quiet" }, "drag a box, pinch or ctrl + wheel to zoom; click to pin");
  const element = el("section", { class: "hw-map", "aria-label": "Map" },
    el("div", { class: "hw-map-tools" }, buttons, hint), plot, read, apartLine, table);
  const scratch = {}, exact = exactRows(app, redraw);
  let drawn = null, hover = null, before = null, waiting = 0;
  const look = watchLook(app, element, redraw);

  /** What there is to draw of a state, in a width. */
  function drawing(state, found, width, fine, held) {
    const [rows, columns] = app.sidesOf(state.head, app.scene(state.scene)).map((side) => app.units(side, state.unit));
    const view = viewOf(state.zoom, rows, columns), sharp = held ? exact.of(state, found, view, rows) : null;
    const layout = mapLayout(width, rows, columns), cells = sharp ?? found.cells;
    const made = {
      cells, rows, columns, view, layout, fine, scratch: held ?? {}, top: scaleTop(found.cells.largest), apart: apartOf(app, state, found),
      seen: seenUnits(app, state.head, state.scene, state.unit), exact: sharp !== null, whole: found.cells, found,
      pinned: state.pinned ? pinnedOf(state, rows, columns) : null, head: state.head,
      dots: [[view[1] - view[0], layout.high], [view[3] - view[2], layout.wide]].map(([n, size]) => n / Math.min(n, Math.round(size * fine))),
    };
    made.caption = mapCaption(app, state, made);
    return made;
  }

  function draw(state, found) {
    const width = look.width();
    if (!width) return;
    drawn = drawing(state, found, width, window.devicePixelRatio || 1, scratch);
    const figure = mapFigure(drawn, { name: "map", title: `Map of ${state.head}` }), colours = look.colours();
    figure.draw(penOn(canvas, figure.width, figure.height, colours), colours);
    overlay.place(drawn, colours);
    const lines = apartLines(drawn.apart);
    apartLine.textContent = lines.join(" · ");
    apartLine.hidden = !lines.length;
    buttons[1].disabled = buttons[2].disabled = state.zoom === null;
    canvas.dataset.shows = state.head;
    element.removeAttribute("aria-busy");
    point(state);
    after(state);
  }

  /** What can wait until the picture is there: words for readers of screens, and the cells of heads beside this one. */
  function after(state) {
    const mine = ++waiting, from = before;
    before = state.head;
    whenIdle(async () => {
      for (const head of headsBeside(app, state.head, from, state.scene)) {
        if (mine !== waiting) return;
        await app.cells(head, state.scene).catch(() => null);
        await new Promise(whenIdle);
      }
    });
    whenIdle(() => {
      if (mine !== waiting) return;
      canvas.setAttribute("aria-label", mapSummary(app, state, drawn));
      table.replaceChildren(strongestTable(drawn));
    });
  }

  /** The cross under the pointer, and the line that reads it. */
  function point(state) {
    if (!drawn) return;
    const at = hover ?? pinnedOf(state, drawn.rows, drawn.columns);
    overlay.point(drawn, at);
    read.textContent = at && at[1] !== null ? cellSaid(drawn, ...at) : at ? `${isolated(drawn.rows[at[0]].label)} is chosen` : "\u00a0";
  }

  function redraw() {
    const state = app.store.get(), now = app.cellsNow(state.head);
    if (!element.hidden && now !== undefined) draw(state, now);
  }
  async function update(state, changed) {
    if (changed.has("theme")) look.refresh();
    if (!MAP_DRAWS.some((name) => changed.has(name)) && !(state.pinned && (changed.has("query") || changed.has("key")))) return point(state);
    const now = app.cellsNow(state.head);
    if (now !== undefined) return draw(state, now);
    element.setAttribute("aria-busy", "true");
    await app.cells(state.head, state.scene);
    requestAnimationFrame(() => {
      const fresh = app.store.get();
      if (fresh.head === state.head && fresh.scene === state.scene) redraw();
    });
  }

  const moves = {
    place(event, clamped = false) {
      if (!drawn) return null;
      const box = canvas.getBoundingClientRect(), { left, top, wide, high } = drawn.layout, [q0, q1, k0, k1] = drawn.view;
      let down = (event.clientY - box.top - top) / high, across = (event.clientX - box.left - left) / wide;
      if (clamped) [down, across] = [down, across].map((part) => Math.min(0.99999, Math.max(0, part)));
      if (down < 0 || down >= 1 || across < 0 || across >= 1) return null;
      return { down, across, row: Math.floor(q0 + down * (q1 - q0)), column: Math.floor(k0 + across * (k1 - k0)) };
    },
    view: () => drawn.view,
    size: () => [drawn.rows.length, drawn.columns.length],
    zoomed: () => app.store.get().zoom !== null,
    zoom: (view) => app.store.set({ zoom: zoomOf(view, drawn.rows, drawn.columns) }),
    /** What + and - keep in place: what is pinned, where it is in view. */
    centre() {
      const [q0, q1, k0, k1] = drawn.view, at = drawn.pinned;
      const within = at && at[1] !== null && at[0] >= q0 && at[0] < q1 && at[1] >= k0 && at[1] < k1;
      return within ? { down: (at[0] + 0.5 - q0) / (q1 - q0), across: (at[1] + 0.5 - k0) / (k1 - k0) } : { down: 0.5, across: 0.5 };
    },
    point(place) {
      hover = place ? [place.row, place.column] : null;
      if (app.store.get().pinned) return point(app.store.get());
      app.store.set(place ? tokensOf(place) : { query: null, key: null });
    },
    leave: () => moves.point(null),
    pick(place) {
      const state = app.store.get(), tokens = tokensOf(place);
      const again = state.pinned && state.query === tokens.query && state.key === tokens.key;
      app.store.set(again ? { pinned: false } : { ...tokens, pinned: true });
    },
    /** Pin the cell under the cross, or the strongest of its row, or of all rows in view; or let it go. */
    pickHere() {
      const at = drawn && crossedCell(drawn, hover ?? pinnedOf(app.store.get(), drawn.rows, drawn.columns));
      if (at) moves.pick({ row: at[0], column: at[1] });
    },
    box: (from, to) => overlay.box(drawn, from, to),
  };
  const tokensOf = ({ row, column }) => ({ query: drawn.rows[row].first, key: drawn.columns[column].first });
  listenOnMap(canvas, moves);
  overlay.listen((row, column) => {
    const [q0, q1, k0, k1] = drawn.view;
    moves.zoom(movedView(drawn.view, Math.round(row - (q0 + q1) / 2), Math.round(column - (k0 + k1) / 2), ...moves.size()));
  });
  const keys = [
    ["+", "zoom into the map", () => zoomIn(moves)],
    ["-", "zoom out of it", () => zoomOut(moves)],
    ["0", "show all of it", () => zoomAll(moves)],
    ...PANS.map(([name, says, down, across]) => [`shift+${name}`, says, () => panMap(moves, down, across)]),
  ];

  async function figures(state, width = look.width() || 720) {
    const found = await app.cells(state.head, state.scene, state);
    const made = drawing(state, found, width, 2, null), { left, wide } = made.layout;
    made.layout.width = Math.min(width, Math.max(left + wide + 12, MAP_LEGEND)); // no wider than what it shows
    return [mapFigure(made, { name: "map", title: `Map of ${state.head}` })];
  }
  return { name: "map", title: "Map", element, update, figures, keys };
}
