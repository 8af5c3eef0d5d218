// The grid of layers x heads, one for each stream, coloured by what heads do or by any number.

import { el, share } from "./dom.js";

export function gridPanel(app) {
  const element = el("section", { class: "hw-grids", "aria-label": "Heads" });
  const cells = new Map();
  let built = null;

  function build(scene) {
    built = scene;
    cells.clear();
    element.replaceChildren(...scene.streams.map((stream) => {
      const width = Math.max(...stream.layers.map((layer) => layer.total));
      const table = el("table", { role: "grid", "aria-label": `${stream.title} heads` });
      table.append(el("tr", {}, el("th", {}, "layer"), ...Array.from({ length: width }, (_, h) => el("th", { scope: "col" }, `${h}`))));
      for (const layer of stream.layers) {
        const row = el("tr", {}, el("th", { scope: "row" }, `${layer.number}`));
        for (let h = 0; h < width; h++) {
          const id = `${layer.id}.${h}`, head = scene.heads[id];
          const cell = el("td", { role: "gridcell" });
          if (head !== undefined) {
            const button = el("button", {
              type: "button", tabindex: -1, "data-head": id, "aria-label": `${id} ${head.does} ${share(head.mass)}`,
              onclick: () => app.store.set({ head: id }),
            });
            button.style.background = scene.colourings[0].kinds.find((kind) => kind.name === head.does)?.colour;
            cells.set(id, button);
            cell.append(button);
          }
          row.append(cell);
        }
        table.append(row);
      }
      return el("figure", {}, el("figcaption", {}, stream.title), table);
    }));
  }

  function update(state, changed) {
    const scene = app.scene();
    if (built !== scene) build(scene);
    if (!changed.has("head") && !changed.has("scene")) return;
    for (const [id, button] of cells) {
      const on = id === state.head;
      if ((button.getAttribute("aria-current") === "true") !== on) button.setAttribute("aria-current", String(on));
      button.tabIndex = on ? 0 : -1;
    }
  }
  return { name: "grid", title: "Heads", element, update };
}
