// The small grid of the Cut view: a button for each head that turns it off or on, and one for each layer.

import { el } from "../draw/dom.js";
import { css } from "../draw/paint.js";
import { colouringOf, tintOf, toldOf } from "../grid/colouring.js";
import { gridShape } from "../grid/grid_shape.js";

const SAYS = { 0: "off", 1: "on" };

/** `change(heads)` takes a new plan, `plan()` gives the one in force: {id: how much is left}, heads that are on left out. */
export function cutGrid(app, change, plan) {
  const element = el("div", { class: "hw-cut-grids" }), cells = new Map(), layers = new Map();
  let built = null, chosen = null;

  function press(id, half) {
    const now = plan()[id] ?? 1;
    app.store.set({ head: id });
    change({ ...plan(), [id]: half ? (now === 0.5 ? 1 : 0.5) : now === 1 ? 0 : 1 });
  }
  element.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.dataset.cut !== undefined) press(button.dataset.cut, event.shiftKey);
    else if (button?.dataset.layer !== undefined) pressLayer(layers.get(button.dataset.layer), change, plan());
  });

  function build(scene, fresh) {
    if (built === scene && !fresh) return;
    built = scene;
    cells.clear();
    layers.clear();
    element.replaceChildren(...scene.streams.map((stream) => streamPart(app, scene, stream, cells, layers)),
      el("p", { class: "hw-quiet" }, "Click a head to turn it off or on, with Shift to halve it; click a layer's number for all of its heads."));
  }

  function update(head, heads) {
    for (const [id, button] of cells) {
      const factor = heads[id] ?? 1, now = factor === 1 ? "false" : factor === 0 ? "true" : "mixed";
      if (button.getAttribute("aria-pressed") !== now) {
        button.setAttribute("aria-pressed", now);
        button.setAttribute("aria-label", `${id} ${SAYS[factor] ?? "half"}, ${button.dataset.does}`);
      }
    }
    const next = cells.get(head) ?? cells.values().next().value, held = element.contains(document.activeElement) && document.activeElement.dataset.cut;
    if (chosen !== null) chosen.tabIndex = -1;
    chosen?.classList.remove("hw-chosen");
    chosen = next ?? null;
    if (chosen === null) return;
    chosen.tabIndex = 0;
    chosen.classList.toggle("hw-chosen", cells.has(head));
    if (held) chosen.focus({ preventScroll: true });
  }
  return { element, build, update };
}

function streamPart(app, scene, stream, cells, layers) {
  const { rows, columns } = gridShape(stream), colours = app.colours(), colouring = colouringOf(scene, app.store.get().colour);
  const lines = rows.map((row) => {
    const ids = row.heads.map((h) => `${row.id}.${h}`), there = new Set(row.heads);
    layers.set(row.id, ids);
    const layer = el("button", { type: "button", "data-layer": row.id, "aria-label": `Layer ${row.id}: all heads off, or on again` }, `${row.number}`);
    const line = el("div", { class: "hw-cut-row", role: "row" }, el("span", { role: "rowheader" }, layer));
    for (let h = 0; h < columns; h++) line.append(el("span", { role: "gridcell" }, there.has(h) ? cellButton(`${row.id}.${h}`, colouring, colours, cells) : null));
    return line;
  });
  const title = scene.streams.length > 1 ? stream.title || stream.name : "";
  return el("div", { class: "hw-cut-stream" }, title ? el("h3", {}, title) : null,
    el("div", { role: "grid", "aria-label": `${title} heads, pressed ones are off`.trim() }, lines));
}

function cellButton(id, colouring, colours, cells) {
  const tint = tintOf(colouring, id, colours);
  const button = el("button", { type: "button", "data-cut": id, "data-does": toldOf(colouring, id), tabindex: "-1", title: id });
  if (tint !== null) button.style.setProperty("--tint", css(tint));
  cells.set(id, button);
  return button;
}

/** All heads of a layer off; where they are, on again. */
function pressLayer(ids, change, plan) {
  const factor = ids.every((id) => plan[id] === 0) ? 1 : 0;
  change({ ...plan, ...Object.fromEntries(ids.map((id) => [id, factor])) });
}
