// All cells of the rows in view, asked of a server where it has them: a long text's page holds only the strong ones.

import { Cells, readCells } from "../data/cells.js";
import { inflate } from "../data/source.js";

const ROWS_MOST = 600; // rows asked for at once
const ROWS_WAIT = 150; // milliseconds that a view stays before it is asked for

/** Asks for rows and remembers the last ones; `ready` is called when they have come. */
export function exactRows(app, ready) {
  let held = null, wanted = null, timer = 0;

  /** The cells as they are shown, with all cells of the rows in view; null where they are not there (yet). */
  function of(state, found, view, rows) {
    if (!app.index.live?.rows || found.raw.complete || state.head.startsWith("mean/")) return null;
    const from = rows[view[0]].first, to = rows[view[1] - 1].last, name = `${state.scene}/${state.head}`;
    if (to - from > ROWS_MOST) return null;
    if (held?.name === name && held.from <= from && held.to >= to) return app.shown(held.cells, state.head, state.scene, state).cells;
    const key = [name, from, to].join();
    if (wanted !== key) {
      wanted = key;
      clearTimeout(timer);
      timer = setTimeout(() => ask(key, state, from, to, found.raw), ROWS_WAIT);
    }
    return null;
  }
  async function ask(key, { scene, head }, from, to, whole) {
    try {
      const bytes = await app.source.rows(scene, head, from, to);
      const cells = inPlace(readCells(await inflate(bytes)), from, whole);
      if (wanted !== key) return;
      held = { name: `${scene}/${head}`, from, to, cells };
      ready();
    } catch (error) {
      app.say(`The exact rows could not be read: ${error.message}`);
    }
  }
  return { of };
}

/** Rows `from` and on among all rows, the others empty. */
function inPlace(part, from, whole) {
  const start = new Uint32Array(whole.queries + 1);
  for (let q = 0; q < whole.queries; q++) start[q + 1] = part.start[Math.min(part.queries, Math.max(0, q + 1 - from))];
  const rest = new Float32Array(whole.queries);
  return new Cells(whole.queries, whole.keys, start, part.key, part.weight, rest, 0, new Float32Array(0), true, 0, { broken: whole.broken });
}
