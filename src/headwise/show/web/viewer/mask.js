// The page of `headwise mask --page`: one reach, read from the document.

import { el } from "./draw/dom.js";
import { coloursOf } from "./draw/paint.js";
import { readReach } from "./masks/reach_data.js";
import { reachView } from "./masks/reach_view.js";

const maskRoot = document.getElementById("viewer"), maskData = JSON.parse(document.getElementById("data").textContent);
const maskReach = readReach(maskData);
let maskState = { layer: maskReach.layers, query: maskReach.length - 1, key: null, memory: false, pinned: false };
let maskWaiting = false;

const maskView = reachView({
  reach: maskReach, flow: null, labels: null, sources: null, facts: [maskData.masks.map(({ where, text }) => `${where}: ${text}`).join("; ")],
  spoken: (j, memory = false, first = false) => `${first ? "Position" : "position"} ${j}${memory ? " of the encoder" : ""}`,
  colours: () => coloursOf(maskRoot), state: () => maskState, set: (patch) => changeMask(patch),
});

function changeMask(patch) { // one drawing for all that happens between two frames
  maskState = { ...maskState, ...patch };
  if (maskWaiting) return;
  maskWaiting = true;
  requestAnimationFrame(() => {
    maskWaiting = false;
    maskView.draw();
  });
}

function maskFromHash() { // #layer=2&q=9&k=1&memory=1&table=1 opens the page at a place
  const asked = new URLSearchParams(location.hash.slice(1));
  const number = (name, most, least = 0) => (/^\d+$/.test(asked.get(name) ?? "") ? Math.min(most, Math.max(least, Number(asked.get(name)))) : null);
  const memory = maskReach.across !== null && asked.get("memory") === "1";
  maskState = {
    memory, layer: number("layer", maskReach.layers) ?? maskState.layer, query: number("q", maskReach.length - 1, maskReach.start) ?? maskState.query,
    key: number("k", (memory ? maskReach.sources : maskReach.length) - 1), pinned: asked.has("q"),
  };
  maskView.table.open = asked.get("table") === "1" || maskView.table.open;
}

maskRoot.classList.add("headwise", "hw-mask-page");
maskRoot.replaceChildren(el("h1", {}, "Who can influence whom"), maskView.element,
  el("p", { class: "hw-quiet" }, "Point at a cell or a position, click to keep it, Escape to let go. Keys in a map: arrows move, + and - change the layer."));
maskFromHash();
maskView.draw();
addEventListener("hashchange", () => { maskFromHash(); maskView.draw(); });
for (const name of ["resize", "beforeprint", "afterprint"]) addEventListener(name, () => maskView.draw());
for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", () => maskView.draw());
