// The facts under every picture: which model, head and text, and what was hidden, renormalised or pooled.

import { isolated, share } from "../draw/dom.js";
import { isOff } from "../grid/grid_shape.js";

const APART_WORDS = { first: "the first token", separators: "special tokens and punctuation" };

/** A text in one line of at most so many characters. */
export function oneLine(text, most = 120) {
  const line = [...text.replace(/\s+/g, " ").trim()];
  return line.length <= most ? line.join("") : `${line.slice(0, most - 1).join("")}…`;
}

/** The text of a side, or how many positions it has where there is none (sound, a picture). */
const textWords = (side) => (side.text.trim() || !side.tokens.length ? isolated(oneLine(side.text)) : `${side.tokens.length} positions without text`);

/** A head in words: "head 18.6 (KV group 2)", "mean over the heads of layer 18", "mean over all heads". */
export function headWords(app, head, scene = app.scene()) {
  if (!head.startsWith("mean/")) {
    const group = scene.heads[head]?.kv, layer = app.layerOf(head, scene);
    const shared = group !== null && group !== undefined && new Set(layer?.kv).size < (layer?.kv.length ?? 0);
    const more = [shared ? `KV group ${group}` : "", isOff(scene, head) ? "at zero here" : ""].filter(Boolean).join(", ");
    return `head ${head}${more && ` (${more})`}`;
  }
  const of = head.slice(5);
  if (/\d$/.test(of)) return `mean over the heads of layer ${of}`;
  return of === "" ? "mean over all heads" : `mean over all heads of the ${of}`;
}

/** What was set apart: ["the first token hidden", ...]; empty where all is shown. */
export function apartWords(state) {
  return Object.entries(APART_WORDS).filter(([kind]) => state[kind] !== "shown").map(([kind, words]) =>
    state[kind] === "hidden" ? `${words} hidden` : `${words} left out, rows scaled to the sum they had`);
}

/** The facts of a picture of a head, a line each; `top` is the weight at the dark end. */
export function factsOf(app, state, { head = state.head, at = state.scene, top = null } = {}) {
  const scene = app.scene(at), [rows, columns] = app.sidesOf(head, scene);
  const unit = state.unit === "words" ? "Words: to a word the sum over its tokens, from a word their mean." : "";
  return [
    `${scene.model}, ${headWords(app, head, scene)}.${scene.note ? ` ${scene.note}.` : ""}`,
    `Text: ${textWords(rows)}${columns === rows ? "" : `, looking at: ${textWords(columns)}`}`,
    [unit, ...apartWords(state).map((words) => `${words[0].toUpperCase()}${words.slice(1)}.`),
      scene.least > 0 ? `Cells under ${share(scene.least)} are pooled.` : "", top === null ? "" : `Darkest: ${share(top)}.`,
    ].filter(Boolean).join(" "),
  ];
}
