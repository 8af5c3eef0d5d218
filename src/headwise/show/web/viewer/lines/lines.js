// Lines between tokens: of one head, of the heads of its layer in their colours (or their mean), or of all heads.

import { el, share } from "../draw/dom.js";
import { penOn } from "../draw/paint.js";
import { factsOf, headWords } from "../data/facts.js";
import { watchLook } from "../data/look.js";
import { apartLines, apartOf } from "../map/map_says.js";
import { headOfScope, layersOf } from "../data/units.js";
import { LINE_STEP, lineColour, linesFigure, outsideOf, tokenUnder } from "./lines_draw.js";
import { askedOf } from "../tokens/tokens_read.js";

const TALLEST = 30; // tokens in view at once
const LINES_WIDE = 1240; // wider, and lines are hard to follow
const LINE_DRAWS = ["head", "scene", "unit", "first", "separators", "scope", "query", "key", "pinned", "tab", "theme"];

export function linesPanel(app) {
  const canvas = el("canvas", { role: "img", "aria-label": "Lines between tokens" }), spacer = el("div", { class: "hw-lines-all" }, canvas);
  const scroller = el("div", { class: "hw-lines-scroll", tabindex: 0, role: "region", "aria-label": "Lines between tokens" }, spacer);
  const heads = el("div", { class: "hw-lines-heads", role: "group", "aria-label": "Heads" }), says = el("p", { class: "hw-lines-says" });
  const each = el("button", { type: "button", "aria-pressed": "true", onclick: () => {
    each.setAttribute("aria-pressed", String(each.getAttribute("aria-pressed") !== "true"));
    update(app.store.get(), new Set(["scope"]));
  } }, "each head in its colour");
  const element = el("section", { class: "hw-lines", "aria-label": "Lines" }, el("div", { class: "hw-lines-tools" }, each, heads), scroller, says);
  const look = watchLook(app, element, () => redraw());
  const off = new Set();
  let loaded = null, drawn = null, mine = null;

  /** The heads whose lines are drawn in a state. */
  function headsOf(state) {
    const layers = layersOf(app, state.head, app.scene(state.scene));
    if (state.scope !== "layer" || layers.length !== 1 || each.getAttribute("aria-pressed") !== "true") return [headOfScope(app, state)];
    return layers[0].heads.map((number) => `${layers[0].id}.${number}`);
  }

  async function load(state) {
    const names = headsOf(state), known = names.map((head) => app.cellsNow(head, state.scene, state));
    const found = known.includes(undefined) ? await Promise.all(names.map((head) => app.cells(head, state.scene, state))) : known;
    return { names, found };
  }

  /** What there is to draw; `part` is what is in view, all of it where it is not given. */
  function drawing(state, { names, found }, width, part) {
    const [rows, columns] = app.sidesOf(state.head, app.scene(state.scene)).map((side) => app.units(side, state.unit));
    const sets = names.map((head, n) => ({ head, cells: found[n].cells, colour: names.length > 1 ? lineColour(n) : null, title: head }))
      .filter(({ head }) => names.length === 1 || !off.has(head));
    const one = names.length === 1 ? names[0] : `mean/${layersOf(app, state.head, app.scene(state.scene))[0].id}`;
    const facts = factsOf(app, state, { head: one });
    if (names.length > 1) facts.push(`Each head in its colour: ${sets.map(({ head }) => head).join(", ")}; numbers are their mean.`);
    const shown = found.filter((_, n) => names.length === 1 || !off.has(names[n]));
    const lines = shown.length ? apartLines(apartOf(app, { ...state, head: names[0] }, ...shown)) : [];
    return {
      rows, columns, sets, width, asked: askedOf(state, rows, columns), title: `Lines of ${names.length > 1 ? `layer ${one.slice(5)}` : headWords(app, one)}`,
      part: part ?? [0, rows.length, 0, columns.length], apart: lines,
      caption: [...facts, ...lines, ...viewSaid(part, rows.length, columns.length), "Wider and darker: more weight; lines under .01 are not drawn."],
    };
  }

  /** What is in view: the scrolled part of the longer column, and as much of the other. */
  function inView(rows, columns) {
    const most = Math.max(rows, columns), shown = Math.min(most, TALLEST), room = (most - shown) * LINE_STEP;
    const place = room > 0 ? Math.min(1, Math.max(0, scroller.scrollTop / room)) : 0;
    return [rows, columns].flatMap((length) => {
      const from = Math.round(place * Math.max(0, length - shown));
      return [from, Math.min(length, from + shown)];
    });
  }

  function draw(state) {
    const width = Math.min(look.width(), LINES_WIDE);
    if (!width || !loaded) return;
    const [rows, columns] = app.sidesOf(state.head, app.scene(state.scene)).map((side) => app.units(side, state.unit).length);
    drawn = drawing(state, loaded, width - 16, inView(rows, columns));
    const figure = linesFigure(drawn), colours = look.colours(), most = Math.max(rows, columns);
    scroller.style.height = `${figure.height + 4}px`;
    spacer.style.height = `${figure.height + (most - Math.min(most, TALLEST)) * LINE_STEP}px`;
    figure.draw(penOn(canvas, figure.width, figure.height, colours), colours);
    canvas.setAttribute("aria-label", `${drawn.title}${askedSaid(drawn)}`);
    canvas.dataset.outside = outsideAsked(drawn);
    canvas.dataset.shows = loaded.names.join(" ");
    says.textContent = drawn.apart.join(" · ") || "\u00a0";
    each.hidden = state.scope !== "layer";
  }

  async function update(state, changed) {
    if (changed.has("theme")) look.refresh();
    if (!LINE_DRAWS.some((name) => changed.has(name))) return;
    const needed = [...changed].some((name) => !["query", "key", "pinned", "tab", "theme"].includes(name)) || !loaded;
    const turn = (mine = {});
    if (needed) {
      const found = await load(state);
      if (turn !== mine && app.store.get().head !== state.head) return;
      loaded = found;
      namesOf(loaded.names);
    }
    draw(app.store.get());
    reveal(app.store.get());
  }
  function redraw() {
    if (loaded && scroller.clientWidth) draw(app.store.get());
  }

  /** Buttons that leave heads out. */
  function namesOf(names) {
    heads.hidden = names.length < 2;
    if (heads.dataset.names === names.join()) return;
    heads.dataset.names = names.join();
    heads.replaceChildren(...names.map((head, n) => el("button", { type: "button", "aria-pressed": String(!off.has(head)), "data-of": head, onclick: (event) => {
      if (!off.delete(head)) off.add(head);
      event.currentTarget.setAttribute("aria-pressed", String(!off.has(head)));
      redraw();
    } }, el("i", { style: `background:${lineColour(n)}` }), head)));
  }

  /** Scroll to a pinned token that is out of view, when it was not pinned here. */
  function reveal(state) {
    if (!state.pinned || state.query === null || pointed === state.query || !drawn) return;
    const [rows, columns] = app.sidesOf(state.head, app.scene(state.scene)).map((side) => app.units(side, state.unit));
    const asked = askedOf(state, rows, columns), [q0, q1] = inView(rows.length, columns.length);
    pointed = state.query;
    if (asked?.on !== "queries" || (asked.at >= q0 && asked.at < q1)) return;
    scroller.scrollTop = (asked.at - TALLEST / 2) * LINE_STEP;
    draw(state);
  }

  let pointed = null;
  const stateAt = (event) => {
    const box = canvas.getBoundingClientRect(), token = drawn && tokenUnder(drawn, event.clientX - box.left, event.clientY - box.top);
    if (!token) return { query: null, key: null };
    const first = (token.on === "queries" ? drawn.rows : drawn.columns)[token.at].first;
    return token.on === "queries" ? { query: first, key: null } : { query: null, key: first };
  };
  canvas.addEventListener("pointermove", (event) => !app.store.get().pinned && app.store.set(stateAt(event)));
  canvas.addEventListener("pointerleave", () => !app.store.get().pinned && app.store.set({ query: null, key: null }));
  canvas.addEventListener("click", (event) => {
    const state = app.store.get(), asked = stateAt(event);
    const again = state.pinned && state.query === asked.query && state.key === asked.key;
    pointed = asked.query;
    app.store.set(again || (asked.query === null && asked.key === null) ? { pinned: false } : { ...asked, pinned: true });
  });
  scroller.addEventListener("scroll", () => requestAnimationFrame(redraw), { passive: true });

  async function figures(state, width = 720) {
    const [rows, columns] = app.sidesOf(state.head, app.scene(state.scene)).map((side) => app.units(side, state.unit).length);
    return [linesFigure({ ...drawing(state, await load(state), width, inView(rows, columns)), legend: true })];
  }
  return { name: "lines", title: "Lines", element, update, figures };
}

/** Which part of a longer text is in view. */
function viewSaid(part, rows, columns) {
  if (!part || (part[1] - part[0] === rows && part[3] - part[2] === columns)) return [];
  return [`Rows ${part[0] + 1} to ${part[1]} of ${rows}, columns ${part[2] + 1} to ${part[3]} of ${columns}; dashed strokes leave the view.`];
}

/** What the lines say where a token is asked about. */
function askedSaid({ asked, sets, rows, columns }) {
  if (!asked || !sets.length) return "";
  const { cells } = sets[0], queries = asked.on === "queries";
  const links = (queries ? cells.row(asked.at, 3) : cells.column(asked.at, 3)).map(([at, weight]) => `${(queries ? columns : rows)[at].label} ${share(weight)}`);
  return queries ? `: ${rows[asked.at].label} looks most at ${links.join(", ")}` : `: ${columns[asked.at].label} is looked at most by ${links.join(", ")}`;
}

/** Of a token that is asked about, what it gives to (or gets from) tokens above and below the view: "above,below". */
function outsideAsked({ asked, sets, part }) {
  if (!asked || !sets.length) return "";
  const at = asked.at - (asked.on === "queries" ? part[0] : part[2]);
  return (outsideOf(sets[0].cells, part)[asked.on][at] ?? []).map((mass) => mass.toFixed(3)).join();
}
