// What the compare tab opens with where nobody chose: of a text before and after a cut, the head that changed most.

import { measureChanges } from "./changes.js";

const OPENING_TIME = 700; // milliseconds that it may look for that head

/** Whether A and B offered themselves, as the same text by the same model, with heads off in one. */
function offeredCut(app, state, { a, b }) {
  const [one, two] = [a, b].map(({ at }) => app.scene(at));
  return state.withScene === null && !state.withHead && a.at !== b.at && one.model === two.model && one.note !== two.note &&
    one.sides.every((side, i) => side.text === two.sides[i]?.text);
}

/** The head that changed most where the one looked at did not change at all (it lies before the cut); else null. */
export async function openingHead(app, state, pair) {
  if (!offeredCut(app, state, pair)) return null;
  const values = {}, until = performance.now() + OPENING_TIME, from = pair.a.at, to = pair.b.at;
  await measureChanges(app, state, from, to, values, () => {}, () => performance.now() > until, [pair.a.head]);
  if (!(pair.a.head in values) || values[pair.a.head] > 0) return null;
  await measureChanges(app, state, from, to, values, () => {}, () => performance.now() > until);
  const [head, most] = Object.entries(values).reduce((best, one) => (one[1] > best[1] ? one : best), ["", 0]);
  return most > 0 ? head : null;
}
