// A state as it can be shown: what an address or another scene asks for and is not there gives way to what is.

import { START } from "../data/state.js";
import { hasHead, placeOf } from "../grid/grid_shape.js";

const CHOICES = {
  scope: ["head", "layer", "all"], unit: ["tokens", "words"],
  first: ["shown", "hidden", "renormalised"], separators: ["shown", "hidden", "renormalised"],
};

/** The changes a state needs before it can be shown, and what is said of them: [patch, line or ""]. `refused` are the
 * names that were given a value of the wrong kind, which the store did not take. */
export function corrected(app, state, tabs, refused = []) {
  const patch = {}, said = [];
  if (refused.length) said.push(`What was asked for as ${refused.join(", ")} is none that a view can have; it is left out.`);
  if (app.scenes[state.scene] === undefined) {
    patch.scene = 0;
    if (app.scenes.length) said.push(`There is no text ${state.scene} here; the first one is shown.`);
  }
  const scene = app.scenes[patch.scene ?? state.scene];
  if (scene === undefined) return [patch, said.join(" ")];
  for (const [name, choices] of Object.entries(CHOICES)) {
    if (choices.includes(state[name])) continue;
    patch[name] = START[name];
    said.push(`${name} can be ${choices.join(", ")}, and not "${state[name].slice(0, 40)}".`);
  }
  if (tabs.length && !tabs.includes(state.tab)) patch.tab = tabs[0];
  if (scene.colourings?.length && !scene.colourings.some((one) => one.name === state.colour)) patch.colour = scene.colourings[0].name;
  said.push(patchHeads(app, scene, state, patch));
  patchTokens(app, scene, { ...state, ...patch }, patch);
  return [patch, said.filter(Boolean).join(" ")];
}

function patchHeads(app, scene, state, patch) {
  let line = "";
  if (!hasHead(scene, state.head)) {
    patch.head = nearestHead(app, scene, state.head);
    if (state.head) line = `There is no head ${state.head.slice(0, 40)} here; ${patch.head} is shown.`;
  }
  const other = state.withScene === null ? scene : app.scenes[state.withScene];
  if (other === undefined) Object.assign(patch, { withScene: null, withHead: "" });
  else if (state.withHead && !hasHead(other, state.withHead)) patch.withHead = "";
  return line;
}

/** A head in the place of one that is missing: one of its layer, else the one that the page opens with, else the first. */
function nearestHead(app, scene, head) {
  const ids = Object.keys(scene.heads), layer = head.slice(0, head.lastIndexOf("."));
  const opens = [app.opens, scene.opens].find((id) => id && hasHead(scene, id));
  return (layer && ids.find((id) => id.startsWith(`${layer}.`))) || opens || ids[0] || "";
}

function patchTokens(app, scene, state, patch) {
  const stream = scene.streams[placeOf(scene, state.head).stream];
  if (stream === undefined) return;
  const queries = scene.sides[stream.queries].tokens.length, keys = scene.sides[stream.keys].tokens.length;
  if (!within(state.query, queries)) patch.query = null;
  if (!within(state.key, keys)) patch.key = null;
  if (!within(state.layer, Math.max(...scene.streams.map((one) => one.layers.length)) + 1)) patch.layer = null;
  if (state.query === null && state.key === null && state.pinned) patch.pinned = false;
  if (state.zoom !== null && !zoomFits(state.zoom, queries, keys)) patch.zoom = null;
}

const within = (at, count) => at === null || (Number.isInteger(at) && at >= 0 && at < count);

const zoomFits = ([top, bottom, left, right], queries, keys) =>
  0 <= top && top < bottom && bottom <= queries && 0 <= left && left < right && right <= keys;
