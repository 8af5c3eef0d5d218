// What is compared: A is the head looked at, B another head, text, model or cut; and which of their tokens are the same.

/** A and B of a state, {head, at} each; B is null where nothing else was chosen and nothing offers itself. */
export function pairOf(app, state) {
  const a = { head: state.head, at: state.scene };
  const at = state.withScene ?? (state.withHead || app.scenes.length < 2 ? state.scene : (state.scene + 1) % app.scenes.length);
  const scene = app.scenes[at];
  if (scene === undefined) return { a, b: null };
  let head = state.withHead || state.head;
  if (!knownHead(scene, head)) head = tellingHead(scene);
  return { a, b: head === undefined || (head === a.head && at === a.at) ? null : { head, at } };
}

/** Of the last third of the heads the one that looks most by a rule other than the first token; the first of them where none does. */
function tellingHead({ heads }) {
  const names = Object.keys(heads), late = names.slice(Math.floor((2 * names.length) / 3));
  const telling = late.filter((head) => !["first", "spread", "other"].includes(heads[head].does));
  return telling.reduce((best, head) => ((heads[head].mass ?? 0) > (heads[best].mass ?? 0) ? head : best), telling[0] ?? late[0]);
}

/** Whether a scene has a head, or a mean, of this name. */
export const knownHead = (scene, head) => Object.hasOwn(scene.heads, head) || (scene.means ?? []).includes(head) || isMean(scene, head);

const isMean = (scene, head) => head.startsWith("mean/") &&
  scene.streams.some((stream) => head === `mean/${stream.name}` || stream.layers.some((layer) => head === `mean/${layer.id}`));

/** The units on both sides of one of a pair: [rows, columns]. */
export const unitsOf = (app, { head, at }, unit) => app.sidesOf(head, app.scene(at)).map((side) => app.units(side, unit));

/** How two are alike: "units" (the same tokens or words on both sides), "text" (the same text otherwise cut), "none". */
export function likeness(app, a, b, unit) {
  const [units, others] = [unitsOf(app, a, unit), unitsOf(app, b, unit)];
  const same = (one, two) => one.length === two.length && one.every((x, i) => x.label === two[i].label);
  if (units.every((side, i) => same(side, others[i]))) return "units";
  const [texts, otherTexts] = [a, b].map((one) => app.sidesOf(one.head, app.scene(one.at)).map((side) => side.text));
  return texts.every((text, i) => text === otherTexts[i]) ? "text" : "none";
}

/** The unit of another side that holds the middle of unit `at` of a side, by characters; null where none does. */
export function sameplace(app, side, other, unit, at) {
  const span = ({ first, last }, tokens) => [tokens[first]?.[1] ?? -1, tokens[last - 1]?.[2] ?? -1];
  const [from, to] = span(app.units(side, unit)[at], side.tokens);
  if (from < 0 || to <= from) return null;
  const middle = (from + to) / 2;
  const found = app.units(other, unit).findIndex((one) => {
    const [start, end] = span(one, other.tokens);
    return start <= middle && middle < end;
  });
  return found < 0 ? null : found;
}
