// What a corpus says of a head: the claims, their numbers and cases that a table gave, or that there is none.

import { el, isolated, share } from "../draw/dom.js";

/** The evidence of a head, as elements; `how` says how a view is made with a table. */
export function evidenceOf(scene, head, how) {
  const found = scene.evidence?.[head] ?? [];
  if (head.startsWith("mean/")) return [];
  if (found.length) return found.map(claimParts);
  const some = Object.values(scene.evidence ?? {}).some((claims) => claims.length);
  const words = some ? "The table in this page says nothing of this head."
    : `No corpus numbers here: what is above is of this text alone. ${how}`;
  return [el("p", { class: "hw-quiet" }, words)];
}

const claimParts = ({ title, lines = [], cases = [] }) =>
  el("div", { class: "hw-claimParts" }, el("h4", {}, title), lines.map((line) => el("p", {}, line)), cases.length ? el("ul", {}, cases.map(caseParts)) : null);

/** A case: what looks at what, and the text it stands in; a place is [first, last] character, or words alone. */
function caseParts({ text = "", before = null, query, key, weight }) {
  const said = (part) => (Array.isArray(part) ? text.slice(part[0], part[1]) : part);
  const places = [];
  for (const [part, kind, start] of [[query, "query", before], [key, "key", null]]) {
    if (Array.isArray(part)) places.push([part[0], part[1], kind]);
    else if (Number.isInteger(start) && text.startsWith(part, start)) places.push([start, start + part.length, kind]);
  }
  const links = el("p", {}, el("b", { class: "hw-case-query" }, isolated(said(query))), " → ",
    el("b", { class: "hw-case-key" }, isolated(said(key))), ` ${share(weight)}`);
  return el("li", {}, links, text ? el("p", { class: "hw-case", dir: "auto" }, markedText(text, places)) : null);
}

/** A text with places marked, of a long one what is around them. */
function markedText(text, places, around = 60) {
  const sorted = places.sort((a, b) => a[0] - b[0]).filter((place, i, all) => !i || place[0] >= all[i - 1][1]);
  const first = Math.max(0, (sorted[0]?.[0] ?? 0) - around), last = Math.min(text.length, (sorted.at(-1)?.[1] ?? 2 * around) + around);
  const parts = [first > 0 ? "…" : ""];
  let at = first;
  for (const [start, end, kind] of sorted) {
    parts.push(text.slice(at, start), el("mark", { class: `hw-case-${kind}` }, text.slice(start, end)));
    at = end;
  }
  return [...parts, text.slice(at, last), last < text.length ? "…" : ""];
}
