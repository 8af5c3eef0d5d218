// How much every head's pattern differs between two scenes of the same tokens: measured head by head, shown as grids.

import { el, share } from "../draw/dom.js";
import { distances, meanOf } from "./differences.js";
import { font, shade, css, scaleTop, penOn } from "../draw/paint.js";
import { drawLegend } from "../draw/small_map.js";

const CHANGES_WIDE = 18, CHANGES_HIGH = 14, CHANGES_LEFT = 30, CHANGES_TOP = 16, CHANGES_BUSY = 12; // units of the page; milliseconds in one go
const CHANGES_SAID = "How far their rows moved on average (at least, where cells were pooled). Click a head to see it.";

/**
 * Measure the heads (all, or `some`) that both scenes have and `values` (head -> mean distance) lacks, into it.
 * `tell(done, total)` hears of it now and then; `stop()` says when to give up.
 */
export async function measureChanges(app, state, from, to, values, tell, stop, some = Object.keys(app.scene(from).heads)) {
  const heads = some.filter((head) => head in app.scene(to).heads);
  let since = performance.now(), done = 0;
  for (const head of heads) {
    done += 1;
    if (!(head in values)) {
      const [a, b] = await Promise.all([app.cells(head, from, state), app.cells(head, to, state)]);
      if (stop()) return;
      if (a.cells.queries === b.cells.queries && a.cells.keys === b.cells.keys) values[head] = meanOf(distances(a.cells, b.cells).least);
    }
    if (performance.now() - since < CHANGES_BUSY && done < heads.length) continue;
    tell(done, heads.length);
    await new Promise((go) => setTimeout(go));
    if (stop()) return;
    since = performance.now();
  }
}

/** The grids as a figure, one under each other; the darkest is the most that any head changed. */
function changesFigure(app, state, pair, values) {
  const scene = app.scene(pair.a.at), top = scaleTop(Math.max(0, ...Object.values(values))), places = changePlaces(scene);
  const [one, two] = [pair.a, pair.b].map(({ at }) => app.scene(at).title);
  return {
    name: "changes", title: `How far every head's rows moved: ${one} to ${two}`, width: places.width, height: places.height + 30, top,
    caption: [`Total variation distance of each head's rows between “${one}” and “${two}”, mean over rows, ${state.unit}. Darkest ${share(top)}.`],
    draw(pen, colours) {
      pen.font = font(11);
      pen.textBaseline = "middle";
      for (const { words, x, y, align } of places.labels) {
        pen.fillStyle = colours.quiet;
        pen.textAlign = align;
        pen.fillText(words, x, y);
      }
      for (const [head, [x, y]] of places.boxes) {
        drawChange(pen, x, y, head in values ? css(shade(values[head] / top, colours.dark)) : null, colours);
        if (head !== state.head) continue;
        pen.strokeStyle = colours.mark;
        pen.lineWidth = 1.5;
        pen.strokeRect(x - 0.5, y - 0.5, CHANGES_WIDE - 1, CHANGES_HIGH - 1);
      }
      drawLegend(pen, { x: CHANGES_LEFT, y: places.height + 4, width: 140, shadeAt: (part) => shade(part, colours.dark), low: "0", high: share(top), colours });
    },
  };
}

/** A head's box; an empty frame where it is not measured. */
function drawChange(pen, x, y, colour, colours) {
  pen.fillStyle = colour ?? colours.paper;
  pen.fillRect(x, y, CHANGES_WIDE - 2, CHANGES_HIGH - 2);
  if (colour !== null) return;
  pen.strokeStyle = colours.line;
  pen.lineWidth = 1;
  pen.strokeRect(x + 0.5, y + 0.5, CHANGES_WIDE - 3, CHANGES_HIGH - 3);
}

/** Where the boxes of all heads lie: {boxes: Map(head -> [x, y]), labels, width, height}. */
function changePlaces(scene) {
  const boxes = new Map(), labels = [];
  let y = 0, width = CHANGES_LEFT + 150;
  for (const stream of scene.streams) {
    if (scene.streams.length > 1) labels.push({ words: stream.title || stream.name, x: 0, y: (y += 16) - 8, align: "left" });
    const most = Math.max(...stream.layers.map((layer) => layer.total));
    for (let h = 0; h < most; h += most > 16 ? 4 : 1) labels.push({ words: `${h}`, x: CHANGES_LEFT + h * CHANGES_WIDE + CHANGES_WIDE / 2 - 1, y: y + CHANGES_TOP / 2, align: "center" });
    y += CHANGES_TOP;
    for (const layer of stream.layers) {
      labels.push({ words: `${layer.number}`, x: CHANGES_LEFT - 6, y: y + CHANGES_HIGH / 2 - 1, align: "right" });
      for (const head of layer.heads) boxes.set(`${layer.id}.${head}`, [CHANGES_LEFT + head * CHANGES_WIDE, y]);
      y += CHANGES_HIGH;
    }
    width = Math.max(width, CHANGES_LEFT + most * CHANGES_WIDE);
  }
  return { boxes, labels, width, height: y };
}

/** The part of the compare tab that measures and shows this; `show(pair, alike, state)` when either changes. */
export function changesPart(app) {
  const canvas = el("canvas", { role: "img", "aria-label": "How far each head changed" }), progress = el("progress", { hidden: true, "aria-label": "Heads measured" });
  const said = el("p", { class: "hw-quiet" }), most = el("ul", { class: "hw-bars" });
  const element = el("div", { class: "hw-changes", hidden: true }, el("h3", {}, "Which heads changed"), said, progress,
    el("div", { class: "hw-changes-both" }, el("div", { class: "hw-scroll" }, canvas), most));
  let key = "", now = null;

  canvas.addEventListener("click", (event) => go(headAt(event)));
  canvas.addEventListener("mousemove", (event) => {
    const head = headAt(event);
    canvas.style.cursor = head ? "pointer" : "";
    canvas.title = head ? `${head} ${share(now.values[head])}` : "";
  });
  function headAt({ offsetX, offsetY }) {
    if (now === null) return null;
    for (const [head, [x, y]] of changePlaces(app.scene(now.pair.a.at)).boxes)
      if (offsetX >= x && offsetX < x + CHANGES_WIDE && offsetY >= y && offsetY < y + CHANGES_HIGH) return head;
    return null;
  }
  function go(head) {
    if (head) app.store.set({ head, withHead: head, withScene: now.pair.b.at });
  }
  function drawNow(state) {
    if (now === null) return;
    const figure = changesFigure(app, state, now.pair, now.values), colours = app.colours();
    figure.draw(penOn(canvas, figure.width, figure.height, colours), colours);
    const sorted = Object.entries(now.values).filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]).slice(0, 10);
    canvas.setAttribute("aria-label", `${figure.title}. Most: ${sorted.slice(0, 3).map(([head, value]) => `${head} ${share(value)}`).join(", ")}`);
    most.replaceChildren(...sorted.map(([head, value]) => changeLine(head, value, figure.top, () => go(head))));
  }
  function show(pair, alike, state) {
    const offered = pair.b !== null && pair.a.at !== pair.b.at && alike === "units";
    element.hidden = !offered;
    const asked = offered ? [pair.a.at, pair.b.at, state.unit, state.first, state.separators].join() : "";
    if (asked !== key) now = offered ? { pair, values: {}, running: false } : null;
    key = asked;
    if (now === null) return;
    now.pair = pair;
    drawNow(state);
    if (!now.running) measure(now, state);
  }
  /** Goes on until all are measured, the pair changes or another tab is shown. */
  async function measure(mine, state) {
    const stop = () => now !== mine || app.store.get().tab !== "compare";
    mine.running = true;
    try {
      await measureChanges(app, state, mine.pair.a.at, mine.pair.b.at, mine.values, (done, total) => {
        Object.assign(progress, { value: done, max: total, hidden: done === total });
        said.textContent = done === total ? CHANGES_SAID : `${done} of ${total} heads`;
        drawNow(app.store.get());
      }, stop);
      mine.running = !stop(); // what is done need not be done again
    } catch (error) {
      if (now === mine) said.textContent = error.message;
    }
  }
  return { element, show, figure: (state) => (now === null || !Object.keys(now.values).length ? null : changesFigure(app, state, now.pair, now.values)) };
}

function changeLine(head, value, top, onclick) {
  const bar = el("span", { class: "hw-part", "aria-hidden": "true" });
  bar.style.setProperty("--part", `${(100 * value) / top}%`);
  return el("li", {}, el("button", { type: "button", "data-changed": head, onclick }, el("span", { class: "hw-part-name" }, head), bar, el("span", { class: "hw-part-said" }, share(value))));
}
