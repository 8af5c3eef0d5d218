// The map of one head: rows are the tokens that look, columns the ones looked at, darker is more.

import { el, share } from "./dom.js";
import { penOn, ramp, scaleTop, rgb, dot } from "./paint.js";

export function mapPanel(app) {
  const canvas = el("canvas", { role: "img", tabindex: 0 });
  const says = el("p", { class: "hw-quiet" });
  const element = el("section", { class: "hw-map", "aria-label": "Map" }, el("div", { class: "hw-scroll" }, canvas), says);

  function draw(state, found) {
    const { cells } = found, colours = app.colours();
    const width = Math.max(200, Math.min(element.clientWidth - 10, 720));
    const cell = Math.max(width / cells.keys, 0.05);
    const pen = penOn(canvas, width, cell * cells.queries, colours);
    const top = scaleTop(cells.largest), shades = ramp(colours.dark), image = new ImageData(cells.keys, cells.queries);
    const dots = new Uint32Array(image.data.buffer).fill(dot(rgb(colours.unseen)));
    for (let q = 0; q < cells.queries; q++) for (let i = cells.start[q]; i < cells.start[q + 1]; i++)
      dots[q * cells.keys + cells.key[i]] = shades[Math.min(255, Math.round((cells.weight[i] / top) * 255))];
    const small = el("canvas");
    small.width = cells.keys;
    small.height = cells.queries;
    small.getContext("2d").putImageData(image, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(small, 0, 0, width, cell * cells.queries);
    canvas.setAttribute("aria-label", `Map of head ${state.head}; the largest weight is ${share(cells.largest)}`);
    says.textContent = `${state.head}: darkest ${share(top)}`;
  }

  async function update(state) {
    const now = app.cellsNow(state.head);
    if (now !== undefined) return draw(state, now);
    const found = await app.cells(state.head);
    if (app.store.get().head === state.head) draw(app.store.get(), found);
  }
  return { name: "map", title: "Map", element, update };
}
