// Lines of numbers: a name, a bar, the number, and where it stands among all heads.

import { el, share, short } from "../draw/dom.js";
import { placeWords, ranksOf } from "./ranks.js";

/** A name, a bar, a number, and a word on it. */
export function barLine(name, value, { part = value, said = share(value), more = null, title = null, onclick = null, kind = "" } = {}) {
  const bar = el("span", { class: "hw-part", "aria-hidden": "true" });
  bar.style.setProperty("--part", `${Math.min(100, Math.max(0, 100 * part))}%`);
  const parts = [el("span", { class: "hw-part-name", title }, name), bar, el("span", { class: "hw-part-said" }, said),
    more === null ? null : el("span", { class: "hw-part-more" }, more)].filter(Boolean);
  return el("li", {}, onclick ? el("button", { type: "button", class: kind, onclick }, parts) : el("span", { class: kind }, parts));
}
export const barList = (lines, name = "") => el("ul", { class: `hw-bars ${name}` }, lines);

/** A line for every number of a group of colourings (undefined: those of the text itself) that there is of the head chosen.
 * `sure` is what is told beside numbers, by the names of their colourings: intervals, standard errors. */
export function rankedLines(scene, state, group, sure = {}) {
  return (scene.colourings ?? []).filter((one) => one.name !== "does" && one.group === group).flatMap((colouring) => {
    const value = colouring.values?.[state.head];
    if (value === undefined || value === null) return [];
    const kind = colouring.name === state.colour ? "hw-ranked hw-chosen" : "hw-ranked", given = { kind, title: colouring.says || null };
    const name = colouring.short ?? colouring.title;
    if (Array.isArray(value)) return [barLine(name, value[1], { ...given, ...(value[2] ? { said: "–" } : {}), more: colouring.kinds[value[0]]?.name ?? "–" })];
    const { low, high, unit } = colouring, said = low >= 0 && high <= 1 && !unit ? share(value) : short(value);
    const part = Math.abs(value) / (Math.max(Math.abs(low), Math.abs(high)) || 1), beside = sure[colouring.name];
    const named = [`${name}${unit ? ` (${unit})` : ""}`, ...(beside ? [el("small", { class: "hw-sure" }, ` ${beside}`)] : [])];
    return [barLine(named, value, { ...given, part, said, more: placeWords(ranksOf(colouring), state.head) })];
  });
}
