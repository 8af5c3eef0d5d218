// What is printed: the figures of the tab shown as wide as the sheet, the grid and the facts under them, on one page.

import { el } from "../draw/dom.js";
import { font, PRINT } from "../draw/paint.js";
import { sceneFacts, sceneText, shortened } from "../shell/header.js";
import { altOf, captionsOf, inLines, rowsOfFigures } from "./sheet.js";

const PAPER_WIDE = 694, PAPER_HIGH = 930; // units of the page: what A4 and Letter both hold between margins of 12 mm
const PAPER_DOTS = 4; // for a unit: 384 in an inch
const PAPER_GAP = 14, PAPER_LINE = 15, PAPER_TITLE = 34;
const PAPER_LARGER = 1.35, PAPER_SMALLER = 0.68; // how far figures grow to fill the sheet, and shrink before the last is left out
const PAPER_GRID_WIDE = 380, PAPER_GRIDS = [460, 330, 220]; // heights that the grid may have, the first that leaves figures as wide as the sheet

/** A sheet that is filled when the page is printed: `element`, and `stop` to listen no more. */
export function paperSheet(app) {
  const element = el("div", { class: "hw-paper" }), media = matchMedia("print");
  let wanted = false;
  // All that a tab shows is read by now: what it promises is kept before the browser goes on to print.
  const fill = async () => {
    if (wanted) return;
    wanted = true;
    const parts = await paperParts(app).catch(() => []);
    if (!wanted) return;
    element.replaceChildren(...parts);
    app.root.classList.toggle("hw-on-paper", parts.length > 0);
  };
  const clear = () => {
    wanted = false;
    element.replaceChildren();
    app.root.classList.remove("hw-on-paper");
  };
  const turned = () => (media.matches ? fill() : clear());
  const heard = [[globalThis, "beforeprint", fill], [globalThis, "afterprint", clear], [media, "change", turned]];
  for (const [target, name, run] of heard) target.addEventListener(name, run);
  return { element, stop: () => heard.forEach(([target, name, run]) => target.removeEventListener(name, run)) };
}

async function paperParts(app) {
  const state = app.store.get(), scene = app.scene(), figuresOf = (name) => app.panels.find((panel) => panel.name === name)?.figures?.(state, PAPER_WIDE) ?? [];
  const [tab, [grid]] = await Promise.all([figuresOf(state.tab), figuresOf("grid")]);
  const figures = tab.length ? tab : grid ? [grid] : [];
  if (!figures.length) return [];
  const foot = paperFoot(figures, tab.length ? grid : null);
  return [el("h1", { dir: "auto" }, shortened(sceneText(scene), 110)), el("p", { class: "hw-quiet" }, [...sceneFacts(scene), scene.note].filter(Boolean).join(" · ")),
    ...paperRows(foot.kept, foot.rows), foot.element];
}

/** The grid and the facts, and the rows of figures that fit above them. */
function paperFoot(figures, grid) {
  for (let count = figures.length; ; count--) {
    const kept = figures.slice(0, count), rows = rowsOfFigures(kept, PAPER_WIDE + 2, PAPER_GAP);
    for (const tall of grid ? PAPER_GRIDS : [0]) {
      const foot = paperFacts(kept, grid, tall), least = !grid || tall === PAPER_GRIDS.at(-1);
      const part = scaledRows(rows, PAPER_HIGH - 64 - foot.height - PAPER_GAP);
      if (part === 1 || (least && (count === 1 || Math.min(...rows.map((row) => row.scale)) >= PAPER_SMALLER))) return { kept, rows, element: foot.element };
    }
  }
}

/** Give rows the scale with which they fill the sheet's width and go into its height; returns how far the height shrank them. */
function scaledRows(rows, room) {
  for (const row of rows) row.scale = Math.min(PAPER_LARGER, PAPER_WIDE / row.width);
  const high = rows.reduce((sum, row) => sum + row.height * row.scale, 0), own = rows.length * (PAPER_TITLE + PAPER_GAP);
  const part = Math.min(1, (room - own) / high);
  for (const row of rows) row.scale *= part;
  return part;
}

const paperRows = (kept, rows) => rows.map((row) => el("div", { class: "hw-paper-row" }, row.figures.map((figure) =>
  el("figure", {}, kept.length > 1 ? el("h2", { dir: "auto" }, figure.title) : null, paperCanvas(figure, row.scale)))));

/** A figure drawn for paper, so many times as large. */
function paperCanvas(figure, scale) {
  const canvas = el("canvas", { role: "img", "aria-label": figure.title, "data-figure": figure.name }), dots = scale * PAPER_DOTS;
  canvas.width = Math.round(figure.width * dots);
  canvas.height = Math.round(figure.height * dots);
  canvas.style.width = `${figure.width * scale}px`;
  canvas.style.height = `${figure.height * scale}px`;
  const pen = canvas.getContext("2d");
  pen.scale(dots, dots);
  pen.textBaseline = "middle";
  pen.font = font(11);
  figure.draw(pen, PRINT);
  return canvas;
}

/** The grid, small, with the facts of all captions beside it or under it; with its height. */
function paperFacts(figures, grid, tall) {
  const scale = grid ? Math.min(1, tall / grid.height, PAPER_WIDE / grid.width) : 0;
  const wide = grid ? grid.width * scale : 0, high = grid ? grid.height * scale + PAPER_TITLE : 0, beside = wide <= PAPER_GRID_WIDE;
  const lines = paperLines([...figures, ...(grid ? [grid] : [])]), room = PAPER_WIDE - (beside && grid ? wide + PAPER_GAP : 0);
  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = font(11.5);
  const said = lines.reduce((sum, text) => sum + inLines(ruler, text, room - 8).length * PAPER_LINE + 4, 0);
  const facts = el("div", { class: "hw-paper-facts" }, lines.map((line) => el("p", { dir: "auto" }, line)));
  const shown = grid ? el("figure", {}, el("h2", {}, grid.title), paperCanvas(grid, scale)) : null;
  return { height: beside ? Math.max(high, said) : high + said + PAPER_GAP, element: el("div", { class: `hw-paper-foot${beside ? " hw-beside" : ""}` }, shown, facts) };
}

/** What all captions say, each fact once. */
function paperLines(figures) {
  const { own, shared } = captionsOf(figures);
  const ended = (lines) => altOf({ title: "", caption: lines });
  return [...own.flatMap((lines, i) => (lines.length ? [figures.length > 1 && figures[i].title ? `${figures[i].title}: ${ended(lines)}` : ended(lines)] : [])),
    ...(shared.length ? [ended(shared)] : [])];
}
