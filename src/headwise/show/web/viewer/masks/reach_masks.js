// The masks of the layers themselves: each one once, drawn small, with the layers (or heads) that have it.

import { el } from "../draw/dom.js";
import { css, dot, font, penOn, PRINT, rgb, shade } from "../draw/paint.js";
import { RunRows } from "./reach_data.js";
import { labelWidth, reachCanvas } from "./reach_map.js";
import { layersSaid } from "./reach_words.js";

const MASK_SIZE = 88;
const SWATCH_TEXT = 10.5, SWATCH_LINE = 16;

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

/** One sentence where every layer has the same mask and that is the plain causal one; else "". */
export function maskSaid({ own, across, start }, heads) {
  if (across !== null || heads.length || start || own.masks.length !== 1 || own.turns.length < 2) return "";
  const [mask] = own.masks, causal = mask.ends.every((ends, q) => mask.values[q][0] && ends[0] === q + 1 && (ends.length === 1 || (ends.length === 2 && !mask.values[q][1])));
  return causal ? el("p", { class: "hw-reach-causal" }, "Every layer has the same causal mask: a token may attend to itself and to those before it.") : "";
}

/** How Python writes the mask of a layer. */
function maskWords(reach, kind, layer) {
  const found = reach.masks.filter(({ where }) => (kind === "across") === where.startsWith("across") && !where.startsWith("encoder"));
  return found.find(({ layers }) => layers.includes(layer))?.text ?? found[0]?.text ?? "";
}

/** A figure with swatches and their words drawn under it; `entries(colours)` gives [colour, words]. */
export function withSwatches(figure, entries) {
  const width = Math.max(figure.width, 260), places = [];
  let x = 0, y = 0;
  for (const [, words] of entries(PRINT)) {
    const wide = labelWidth(words, SWATCH_TEXT) + 28;
    if (x > 0 && x + wide > width) [x, y] = [0, y + SWATCH_LINE];
    places.push([x, y]);
    x += wide;
  }
  return {
    ...figure, width, height: figure.height + y + SWATCH_LINE + 8,
    draw(pen, colours) {
      figure.draw(pen, colours);
      pen.font = font(SWATCH_TEXT);
      pen.textAlign = "left";
      pen.lineWidth = 1;
      entries(colours).forEach(([colour, words], i) => drawSwatch(pen, colours, places[i][0], figure.height + 8 + places[i][1], colour, words));
    },
  };
}

function drawSwatch(pen, colours, x, y, colour, words) {
  pen.fillStyle = Array.isArray(colour) ? css(colour) : colour;
  pen.fillRect(x, y, 10, 10);
  pen.strokeStyle = colours.line;
  pen.strokeRect(x + 0.5, y + 0.5, 9, 9);
  pen.fillStyle = colours.quiet;
  pen.fillText(words, x + 15, y + 6);
}

/** Swatches with words: a legend as a list. */
export const reachSwatches = (entries) => el("ul", { class: "hw-reach-legend" }, entries.map(([colour, words]) => {
  const box = el("i");
  box.style.background = Array.isArray(colour) ? css(colour) : colour;
  return el("li", {}, box, words);
}));
