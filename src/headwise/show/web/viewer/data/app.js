// What every panel is given: the scenes, the state, and the cells of a head once they are read.

import { inflate, remembering } from "./source.js";
import { readCells, toWords } from "./cells.js";
import { coloursOf } from "../draw/paint.js";
import { headsOfMean, meanOfCells } from "./means.js";
import { setApart } from "./setapart.js";
import { layersOf } from "./units.js";

/** The app of a viewer: `index` as Python's show/page/scene.py makes it, `root` the element it lives in. */
export function makeApp(root, source, index, store) {
  const raw = remembering(async (key) => {
    const [scene, ...head] = key.split("/");
    const bytes = await source.chunk(Number(scene), head.join("/"));
    const names = bytes === null && head.length > 1 ? headsOfMean(app.scene(Number(scene)), head.join("/")) : [];
    if (names.length) return meanOfCells(await Promise.all(names.map((name) => raw.get(`${scene}/${name}`))));
    if (bytes === null) throw new Error(`there are no cells of ${head.join("/")} here`);
    return readable(`the cells of ${head.join("/")}`, async () => readCells(await inflate(bytes)));
  });
  const told = remembering(async (key) => {
    const [scene, ...name] = key.split("/");
    const bytes = await source.chunk(Number(scene), name.join("/"));
    return bytes === null ? null : readable(name.join("/"), async () => JSON.parse(new TextDecoder().decode(await inflate(bytes))));
  });
  const app = {
    root, source, index, store,
    scenes: index.scenes,
    scene: (at = store.get().scene) => app.scenes[at] ?? app.scenes[0],
    /** The stream (one grid of layers x heads) that a head is in. */
    streamOf(head, scene = app.scene()) {
      const name = head.startsWith("mean/") ? head.slice(5) : head;
      const stream = name.includes(".") || scene.streams.length > 1 ? name.replace(/\.?[\d.]*$/, "") : "";
      return scene.streams.find((one) => one.name === stream) ?? scene.streams[0];
    },
    layerOf: (head, scene = app.scene()) => app.streamOf(head, scene).layers.find((one) => head.startsWith(`${one.id}.`)) ?? null,
    /** The texts of a head: whose rows, and whose columns. */
    sidesOf(head, scene = app.scene()) {
      const stream = app.streamOf(head, scene);
      return [scene.sides[stream.queries], scene.sides[stream.keys]];
    },
    /** The units (tokens or words) of a side, each with `label`, `first` and `last` (exclusive) token. */
    units(side, unit = store.get().unit) {
      const name = unit === "words" ? "wordUnits" : "tokenUnits";
      return (side[name] ??= unit === "words"
        ? side.words.map(([label, first, last]) => ({ label, first, last }))
        : side.tokens.map(([label], at) => ({ label, first: at, last: at + 1 })));
    },
    /** The cells of a head as they were made. */
    rawCells: (head, at = store.get().scene) => raw.get(`${at}/${head}`),
    /** As they are to be shown now: by words, with what is set apart; {raw, and what setApart gives}. */
    async cells(head, at = store.get().scene, state = store.get()) {
      return app.shown(await app.rawCells(head, at), head, at, state);
    },
    /** The same at once where they are known, else undefined. */
    cellsNow(head, at = store.get().scene, state = store.get()) {
      const known = raw.known(`${at}/${head}`);
      return known === undefined ? undefined : app.shown(known, head, at, state);
    },
    shown(cells, head, at, state) {
      const key = [state.unit, state.first, state.separators].join();
      cells.shownAs ??= {};
      if (cells.shownAs.key === key) return cells.shownAs.found;
      const [rows, columns] = app.sidesOf(head, app.scene(at));
      const by = state.unit === "words" ? toWords(cells, rows.words, columns.words) : cells;
      const ways = { first: state.first, separator: state.separators }, sunk = layersOf(app, head, app.scene(at)).some((layer) => layer.sink);
      const found = { raw: cells, ...setApart(by, app.keysApart(head, at, state.unit), ways, sunk) };
      cells.shownAs = { key, found };
      return found;
    },
    /** The keys of each kind that can be set apart, by tokens or words: {first: [0], separator: [...]}. */
    keysApart(head, at = store.get().scene, unit = store.get().unit) {
      const scene = app.scene(at), stream = app.streamOf(head, scene), side = scene.sides[stream.keys];
      const name = `${unit}${stream.queries === stream.keys ? "Own" : "Cross"}Apart`;
      return (side[name] ??= keysSetApart(side, app.units(side, unit), stream.queries !== stream.keys));
    },
    /** A JSON chunk of a scene ("fires", "flow"); null where the page has none. */
    told: (name, at = store.get().scene) => told.get(`${at}/${name}`),
    /** The same measured now: kept for every panel, as if the page had been made with it. */
    keep: (name, at, found) => told.put(`${at}/${name}`, found),
    colours: () => coloursOf(root),
    /** Say something to those who listen rather than look. */
    say(text) {
      root.querySelector(".hw-said").textContent = text;
    },
  };
  return app;
}

/** The units of a side that can be set apart; of a text that another one looks at (`cross`) the first is like others. */
function keysSetApart(side, units, cross) {
  const separators = new Set(side.separators), first = cross || !side.tokens.length ? [] : [0];
  const within = (unit) => {
    for (let t = unit.first; t < unit.last; t++) if (!separators.has(t)) return false;
    return true;
  };
  return { first, separator: units.map((_, i) => i).filter((i) => !first.includes(i) && within(units[i])) };
}

/** What `read` makes; one clear line where the bytes are damaged. */
async function readable(what, read) {
  try {
    return await read();
  } catch {
    throw new Error(`${what} cannot be read; the file may be damaged`);
  }
}
