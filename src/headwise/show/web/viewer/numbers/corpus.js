// What a corpus says of a head, a folded group for each table: roles with their evidence, a profile, an importance.

import { el, plural } from "../draw/dom.js";
import { evidenceOf } from "./evidence.js";
import { barList, rankedLines } from "./number_lines.js";

const GROUPS = [["roles", "Roles over a corpus"], ["profile", "Profile over a corpus"], ["importance", "Importance"]];

/** The groups of a head; those that stand open in `place` stay so. `how` says how a view is made with a table. */
export function corpusParts(place, scene, state, how) {
  if (state.head.startsWith("mean/")) return [];
  const open = new Set([...place.querySelectorAll("details[open]")].map((one) => one.dataset.group));
  const parts = GROUPS.flatMap(([group, title]) => groupParts(scene, state, group, title, open));
  if (parts.length) return [el("h3", {}, "Evidence over a corpus"), ...parts];
  return [el("h3", {}, "Evidence"), ...evidenceOf(scene, state.head, how)];
}

function groupParts(scene, state, group, title, open) {
  const blocks = (scene.evidence?.[state.head] ?? []).filter((one) => (one.group ?? "roles") === group);
  const sure = Object.assign({}, ...blocks.map((one) => one.sure ?? {})), lines = rankedLines(scene, state, group, sure);
  if (!lines.length && !blocks.length) return [];
  const measured = group !== "roles"; // there the lines of a block are these numbers again
  const count = measured ? plural(lines.length, "number") : plural(blocks.length, "claim");
  const chosen = (scene.colourings ?? []).some((one) => one.name === state.colour && one.group === group);
  return [el("details", { class: "hw-corpus", "data-group": group, open: open.has(group) || chosen || group === "roles" },
    el("summary", {}, title, el("span", { class: "hw-quiet" }, ` ${count}`)),
    ...(measured ? blocks.map((one) => el("p", { class: "hw-quiet" }, `${one.title}.`)) : []), barList(lines),
    ...(measured ? [] : evidenceOf({ evidence: { [state.head]: blocks } }, state.head, "")))];
}
