// What the colours of the grid mean: kinds with how many heads each has, or a scale with its numbers.

import { el, plural } from "../draw/dom.js";
import { css } from "../draw/paint.js";
import { kindCounts, kindTint, numberText, numberTint } from "./colouring.js";

const OFFERED = ["entropy", "distance", "largest"]; // what tells heads of one kind apart
const MOSTLY = 0.6; // part of the heads from which one kind is most of them

/** The legend of a colouring. A kind that is clicked stands out in the grid, or no longer does. */
export function legendOf(app, colouring) {
  if (colouring === null) return [];
  const zero = app.scene().off?.length ? ["; a cross: at zero here"] : [];
  const says = el("p", { class: "hw-quiet hw-legend-says" }, colouring.says ?? "", ...zero, ...othersOffered(app, colouring));
  return [colouring.kinds ? kindLegend(app, colouring) : scaleLegend(app, colouring), says];
}

/** Where most heads are of one kind a grid tells little: numbers that tell them apart are offered. */
function othersOffered(app, colouring) {
  if (!colouring.kinds) return [];
  const counts = kindCounts(colouring).map(([, , count]) => count), all = counts.reduce((a, b) => a + b, 0);
  const others = (app.scene().colourings ?? []).filter((one) => !one.kinds && OFFERED.includes(one.name));
  if (!others.length || Math.max(0, ...counts) <= all * MOSTLY) return [];
  const button = (one) => el("button", { type: "button", class: "hw-offered", "data-colour": one.name, onclick: () => app.store.set({ colour: one.name, kind: "" }) },
    one.title.toLowerCase());
  return [". Most heads are of one kind: colour them by ", ...others.flatMap((one, i) => [i ? (i === others.length - 1 ? " or " : ", ") : "", button(one)]), "."];
}

function kindLegend(app, colouring) {
  const { kind: chosen } = app.store.get(), colours = app.colours();
  return el("ul", { class: "hw-kinds", "aria-label": colouring.title }, kindCounts(colouring).map(([kind, , count]) => {
    const swatch = el("i", { "aria-hidden": "true" });
    swatch.style.background = css(kindTint(kind, 1, colours));
    return el("li", {}, el("button", {
      type: "button", "aria-pressed": String(chosen === kind.name), "data-kind": kind.name,
      "aria-label": `${kind.name}, ${plural(count, "head")}: let them stand out`,
      onclick: () => app.store.set({ kind: app.store.get().kind === kind.name ? "" : kind.name }),
    }, swatch, `${kind.name} `, el("span", { class: "hw-count" }, `${count}`)));
  }));
}

function scaleLegend(app, colouring) {
  const colours = app.colours(), steps = 24, [low, high] = scaleEnds(colouring);
  const stops = Array.from({ length: steps + 1 }, (_, i) => css(numberTint(colouring, low + ((high - low) * i) / steps, colours)));
  const band = el("div", { class: "hw-scale", role: "img",
    "aria-label": `${colouring.title}: from ${numberText(colouring, low)} to ${numberText(colouring, high)}` });
  band.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  const middle = colouring.diverging ? 0 : (low + high) / 2;
  return el("div", { class: "hw-scales" }, band, el("div", { class: "hw-scale-numbers", "aria-hidden": "true" },
    [low, middle, high].map((value) => el("span", {}, numberText(colouring, value)))));
}

/** The numbers at the ends of a scale; both ways alike where it has two hues. */
export function scaleEnds({ low, high, diverging }) {
  if (!diverging) return [low, high];
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  return [-most, most];
}

/** A mark on the scale where the chosen head is, in the legend that is there. */
export function markOnScale(legend, colouring, head) {
  const band = legend.querySelector(".hw-scale"), value = colouring?.values[head];
  if (band === null) return;
  const [low, high] = scaleEnds(colouring), known = typeof value === "number" && high > low;
  band.style.setProperty("--at", known ? `${(100 * Math.min(Math.max((value - low) / (high - low), 0), 1)).toFixed(1)}%` : "-1000%");
}
