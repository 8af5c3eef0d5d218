// What the grid can be coloured by: kinds, paler where there is less, or a number on a scale of one hue or two.

import { short, share } from "../draw/dom.js";
import { mix, rgb, shade } from "../draw/paint.js";
import { shadeApart } from "../draw/paint_cells.js";

const FAINTEST = 0.3; // part of a kind's colour where there is none of it, so that the hue is never lost

/** The colouring of this name in a scene, else the first one; null where a scene has none. */
export const colouringOf = (scene, name) =>
  scene.colourings?.find((one) => one.name === name) ?? scene.colourings?.[0] ?? null;

/** The colour of a head as [r, g, b]; null where the colouring says nothing of it. */
export function tintOf(colouring, head, colours) {
  const value = colouring?.values[head];
  if (value === null || value === undefined) return null;
  if (colouring.kinds) return kindTint(colouring.kinds[value[0]], value[1], colours);
  return numberTint(colouring, value, colours);
}

/** The colour of a kind where there is so much of it (0 to 1). */
export function kindTint(kind, mass, colours) {
  const full = colours.dark ? kind.dark ?? kind.colour : kind.colour;
  return mix(rgb(colours.paper), rgb(full), FAINTEST + (1 - FAINTEST) * Math.min(Math.max(mass ?? 1, 0), 1));
}

/** The colour of a number: darker is more (lighter on a dark ground); of two hues where it can be below nothing. */
export function numberTint(colouring, value, colours) {
  const { low, high } = colouring;
  if (!colouring.diverging) return shade(high > low ? (value - low) / (high - low) : 0, colours.dark);
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  return shadeApart(value / most, colours.dark);
}

/** What a colouring says of a head, in words: "previous .92", "entropy 1.32 bits"; "" where it says nothing. */
export function toldOf(colouring, head) {
  const value = colouring?.values[head];
  if (value === null || value === undefined) return "";
  if (colouring.kinds && value[2]) return value[2]; // said in words, where a number would say nothing
  if (colouring.kinds) return `${colouring.kinds[value[0]].name} ${share(value[1])}`;
  return `${colouring.title.toLowerCase()} ${numberText(colouring, value)}`;
}

/** A number of a colouring with its unit. */
export const numberText = (colouring, value) => [short(value), colouring.unit].filter(Boolean).join(" ");

/** How many heads each kind has: [[kind, number in the colouring, count], ...], those with none left out. */
export function kindCounts(colouring) {
  const counts = colouring.kinds.map(() => 0);
  for (const value of Object.values(colouring.values)) counts[value[0]]++;
  return colouring.kinds.map((kind, at) => [kind, at, counts[at]]).filter(([, , count]) => count > 0);
}

/** Whether a head is of the kind that stands out; true for all where none does. */
export function standsOut(colouring, head, kind) {
  if (!kind || !colouring?.kinds?.some((one) => one.name === kind)) return true;
  const value = colouring.values[head];
  return value !== undefined && colouring.kinds[value[0]].name === kind;
}
