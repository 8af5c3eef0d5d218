// The masks of the layers themselves: each one once, drawn small, with the layers (or heads) that have it.

import { el } from "./dom.js";
import { css, dot, penOn, rgb, shade } from "./paint.js";
import { RunRows } from "./reach_data.js";
import { reachCanvas } from "./reach_map.js";
import { layersSaid } from "./reach_words.js";

const MASK_SIZE = 88;

/** A list of the masks of a reach; `told` is what Python says of them in words, `heads` of layers whose heads differ. */
export function masksList(reach, heads, colours) {
  const stacks = [["", reach.own], ["across", reach.across]].filter(([, stack]) => stack !== null);
  const items = stacks.flatMap(([kind, stack]) => stack.masks.map((mask, at) => {
    const layers = stack.turns.flatMap((turn, layer) => (turn === at ? [layer + 1] : []));
    const shown = reach.ids ? layers.map((layer) => Number(reach.ids[layer - 1].replace(/^.*\./, ""))) : layers;
    return maskItem(mask, stack.first, `${kind ? `${kind}, ` : ""}${layersSaid(shown, stack.turns.length)}`, maskWords(reach, kind, layers[0]), colours, layers);
  }));
  const mine = heads.filter(([id]) => reach.ids?.includes(id));
  return el("ul", { class: "hw-reach-masks" }, items, mine.flatMap(([id, turns, masks]) => masks.map((rows, at) => {
    const held = turns.flatMap((turn, head) => (turn === at ? [`${id}.${head}`] : []));
    return maskItem(new RunRows(rows), reach.own.first, held.length > 6 ? `${held.slice(0, 6).join(", ")}, …` : held.join(", "), "heads of their own mask", colours, []);
  })));
}

function maskItem(mask, first, where, text, colours, layers) {
  const columns = mask.ends[0][mask.ends[0].length - 1], canvas = el("canvas", { "aria-hidden": "true" });
  const high = Math.max(8, Math.min(MASK_SIZE, (MASK_SIZE * mask.rows) / columns)), pen = penOn(canvas, MASK_SIZE, high, colours);
  const on = dot(shade(0.75, colours.dark)), off = dot(rgb(colours.unseen));
  const image = reachCanvas(mask.rows, columns, (row, dots, at, wide) => mask.each(row, (from, to, sees) => {
    dots.fill(sees ? on : off, at + Math.ceil((from * wide) / columns), at + Math.ceil((to * wide) / columns));
  }));
  pen.imageSmoothingEnabled = mask.rows > MASK_SIZE;
  pen.drawImage(image, 0, 0, MASK_SIZE, high);
  pen.strokeStyle = colours.line;
  pen.strokeRect(0.5, 0.5, MASK_SIZE - 1, high - 1);
  return el("li", { "data-layers": layers.join(" ") }, canvas, el("span", {}, where, el("br"), el("code", {}, text)));
}

/** How Python writes the mask of a layer. */
function maskWords(reach, kind, layer) {
  const found = reach.masks.filter(({ where }) => (kind === "across") === where.startsWith("across") && !where.startsWith("encoder"));
  return found.find(({ layers }) => layers.includes(layer))?.text ?? found[0]?.text ?? "";
}

/** Swatches with words: a legend as a list. */
export const reachSwatches = (entries) => el("ul", { class: "hw-reach-legend" }, entries.map(([colour, words]) => {
  const box = el("i");
  box.style.background = Array.isArray(colour) ? css(colour) : colour;
  return el("li", {}, box, words);
}));
