// One reach to look at: a slider over the layers, its map, what was measured beside it, its paths, masks and numbers.

import { el, plural } from "../draw/dom.js";
import { penOn } from "../draw/paint.js";
import { backOf, contextsOf, lastToOpen, onwardsOf } from "./reach_data.js";
import { reachFigures } from "./reach_figures.js";
import { laterColour, opensShade, pathColour } from "./reach_map.js";
import { maskSaid, masksList, reachSwatches, withSwatches } from "./reach_masks.js";
import { flowSays, reachSays } from "./reach_words.js";

/**
 * `given` has reach, flow and crossFlow (or null), heads (of layers whose heads differ), labels and sources (names of positions),
 * spoken (as in reach_words.js), facts (of the caption), colours(), state() and set({layer, query, key, memory, pinned}).
 */
export function reachView(given) {
  const { reach, flow, crossFlow = null } = given;
  const parts = { input: layerSlider(reach, given), now: el("output", { class: "hw-reach-now" }), says: el("p", { class: "hw-reach-says", role: "status", "aria-live": "polite" }) };
  const shown = new Map(), masks = el("div"), legend = el("div"), ways = el("div");
  const table = el("details", { class: "hw-reach-table", ontoggle: () => fillContexts(table, reach, view()) }, el("summary", {}, "Context of each position"));
  const stage = el("div", { class: "hw-reach-maps" });
  const element = el("div", { class: "hw-reach" },
    el("div", { class: "hw-reach-bar" }, el("label", {}, "After ", parts.input), parts.now), parts.says,
    flow === null ? null : leaksList(flow, given, false), crossFlow === null ? null : leaksList(crossFlow, given, true), stage, masks, table);
  let themed = "";

  const view = () => {
    const state = given.state();
    const layer = Math.min(state.layer ?? reach.layers, reach.layers), memory = Boolean(state.memory && reach.across);
    const query = Math.min(Math.max(state.query ?? reach.length - 1, reach.start), reach.length - 1);
    const key = state.key === null || state.key === undefined ? null : Math.min(state.key, (memory ? reach.sources : reach.length) - 1);
    return { layer, query, key, memory, pinned: state.pinned };
  };

  const figuresNow = (wide) => reachFigures(reach, { flow, crossFlow }, view(), given, wide);

  /** The pictures for others, with the legends that stand under them here. */
  function figures(width = Math.max(260, element.clientWidth || 700)) {
    const at = view(), legends = { reach: (colours) => reachLegend(reach, colours), paths: (colours) => pathsLegend(given.spoken(at.query), colours) };
    return figuresNow(width).map((figure) => (figure.name in legends ? withSwatches(figure, legends[figure.name]) : figure));
  }

  function draw() {
    const at = view(), colours = given.colours(), theme = `${colours.dark} ${colours.paper}`;
    parts.input.value = String(at.layer);
    parts.now.textContent = ` ${at.layer} of ${plural(reach.layers, "layer")}${passedSpan(reach, at.layer)}`;
    parts.says.textContent = reachSays(reach, at, given.spoken) + flowSays(at.memory ? crossFlow : flow, at, given.spoken);
    if (themed !== theme) masks.replaceChildren(el("h3", {}, "Masks: who may attend to whom in one layer"), maskSaid(reach, given.heads ?? []), masksList(reach, given.heads ?? [], colours));
    themed = theme;
    legend.replaceChildren(reachSwatches(reachLegend(reach, colours)));
    ways.replaceChildren(reachSwatches(pathsLegend(given.spoken(at.query), colours)));
    for (const figure of figuresNow(Math.max(260, element.clientWidth || 700))) drawFigure(figure, colours, parts.says.textContent);
    for (const item of masks.querySelectorAll("li")) item.classList.toggle("now", reach.layers > 1 && item.dataset.layers.split(" ").includes(String(at.layer)));
    if (table.open) fillContexts(table, reach, at);
  }

  function drawFigure(figure, colours, says) {
    if (!shown.has(figure.name)) {
      const canvas = el("canvas", { role: "img", tabindex: 0, "aria-label": figure.title, "data-map": figure.name });
      const title = el("h3", {}, figure.title), note = el("p", { class: "hw-quiet" });
      stage.append(el("section", {}, title, el("div", { class: "hw-reach-scroll" }, canvas), figure.name === "reach" ? legend : figure.name === "paths" ? ways : note));
      shown.set(figure.name, { canvas, title, note });
      listenToReach(canvas, figure.name, given, reach, view);
    }
    const { canvas, title, note } = shown.get(figure.name);
    canvas.figure = figure;
    title.textContent = figure.title;
    canvas.closest("section").style.maxWidth = `${Math.ceil(Math.max(figure.width, 260))}px`;
    note.textContent = figure.note ?? "";
    canvas.setAttribute("aria-label", `${figure.title}. ${says}`);
    figure.draw(penOn(canvas, figure.width, figure.height, colours), colours);
  }
  return { element, draw, figures, table };
}

function layerSlider(reach, given) {
  return el("input", {
    type: "range", min: "0", max: String(reach.layers), step: "1", class: "hw-reach-layer", "aria-label": "Layers passed",
    oninput: (event) => given.set({ layer: Number(event.target.value) }),
  });
}

/** Which layers were passed, where they have names. */
function passedSpan(reach, layer) {
  if (!reach.ids || layer === 0) return "";
  return layer === 1 ? ` (layer ${reach.ids[0]})` : ` (layers ${reach.ids[0]} to ${reach.ids[layer - 1]})`;
}

function reachLegend(reach, colours) {
  const last = lastToOpen(reach), step = Math.ceil(last / 8), named = (at) => (reach.ids ? reach.ids[at - 1].replace(/^.*\./, "") : at);
  const some = Array.from({ length: last + 1 }, (_, at) => at).filter((at) => at % step === 0 || at === last || at === 1);
  return [...some.map((at) => [opensShade(at, last, colours.dark), at ? `from layer ${named(at)} on` : "itself"]),
    [laterColour(colours), "later than shown"], [colours.unseen, "never"]];
}

const pathsLegend = (name, colours) => [[colours.in, `carries to ${name}`], [colours.out, `carries on from ${name}`], [pathColour(colours), "one shortest path"]];

/** Pointing shows, a click keeps; arrows move, + and - change the layer, Escape lets go. */
function listenToReach(canvas, name, given, reach, view) {
  const found = (event) => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    return canvas.figure.point(x, y);
  };
  const point = (event, keep) => {
    const at = found(event);
    if (at === null || (view().pinned && !keep)) return;
    given.set({ ...at, ...(keep ? { pinned: true } : {}) });
  };
  canvas.addEventListener("pointermove", (event) => point(event, false));
  canvas.addEventListener("click", (event) => point(event, true));
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const patch = reachKey(event.key, { ...view(), memory: name.startsWith("across") }, reach);
    if (patch === null) return;
    event.preventDefault();
    event.stopPropagation();
    given.set(patch);
  });
}

function reachKey(pressed, { query, key, layer, memory }, reach) {
  const most = (memory ? reach.sources : reach.length) - 1, clamp = (n, top, low = 0) => Math.min(top, Math.max(low, n));
  const keep = { pinned: true, memory };
  if (pressed === "ArrowUp") return { ...keep, query: clamp(query - 1, reach.length - 1, reach.start) };
  if (pressed === "ArrowDown") return { ...keep, query: clamp(query + 1, reach.length - 1, reach.start) };
  if (pressed === "ArrowLeft") return { ...keep, query, key: clamp((key ?? most + 1) - 1, most) };
  if (pressed === "ArrowRight") return { ...keep, query, key: clamp((key ?? -1) + 1, most) };
  if (pressed === "+" || pressed === "=") return { layer: clamp(layer + 1, reach.layers) };
  if (pressed === "-") return { layer: clamp(layer - 1, reach.layers) };
  return pressed === "Escape" ? { pinned: false, key: null, memory: false } : null;
}

/** The leaks of a measured flow (`memory`: of edits in the encoder's text) as a list; each one can be looked at. */
function leaksList(flow, given, memory) {
  const from = memory ? ", from the encoder" : "";
  if (flow.clean) return el("p", { class: "hw-flow-clean" }, `Measured${from}: ${flow.says}.`);
  const at = (id) => flow.layers.indexOf(id) + 1, seen = new Set();
  const pairs = flow.leaks.filter(([, q, k]) => !seen.has(`${q} ${k}`) && seen.add(`${q} ${k}`)).slice(0, 12);
  return el("div", { class: "hw-flow-leaks", role: "alert" }, el("p", {}, `Leaks${from}: ${flow.says}.`),
    el("ul", {}, pairs.map(([id, query, key, size]) => el("li", {}, el("button", {
      type: "button", onclick: () => given.set({ query, key, layer: at(id), pinned: true, memory }),
    }, `layer ${id}: ${given.spoken(key, memory)} moves ${given.spoken(query)} by ${Number(size.toPrecision(2))}`)))),
    flow.num_leaks > pairs.length ? el("p", { class: "hw-quiet" }, "The largest are listed; the maps outline all of a layer.") : null);
}

function fillContexts(table, reach, { layer, query, memory }) {
  const { own, across, length, start } = reach;
  const heads = ["position", "reached by", "furthest back", "reaches", ...(across ? ["of the encoder"] : [])];
  const rows = Array.from({ length: length - start }, (_, i) => i + start).map((q) => {
    const numbers = [q, contextsOf(own.first, layer)[q], backOf(own.first, q, layer), onwardsOf(own.first, q, layer, start)];
    if (across) numbers.push(contextsOf(across.first, layer)[q]);
    return el("tr", { class: q === query ? "on" : "" }, numbers.map((n) => el("td", {}, String(n))));
  });
  table.querySelector("div")?.remove();
  table.append(el("div", { class: "hw-reach-scroll", tabindex: 0 }, el("table", {}, el("thead", {}, el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, rows))));
}
