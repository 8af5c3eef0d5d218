// What is looked at: one flat object that every panel reads, kept in the address so that a view can be sent.

/** What a view starts from; the address names only what differs. */
export const START = {
  scene: 0, // which text and model
  head: "", // the head chosen, "18.6"; "mean/18" is the mean of a layer, "mean/" of all heads
  tab: "map",
  scope: "head", // whom hovering a token asks: "head", "layer" or "all"
  unit: "tokens", // or "words"
  first: "shown", // the first token: "shown", "hidden" or "renormalised"
  separators: "shown", // special tokens and punctuation, likewise
  colour: "does", // what the grid is coloured by
  kind: "", // the kind of heads that stands out in the grid
  query: null, // the token that looks
  key: null, // the token looked at
  pinned: false, // whether these stay while the pointer moves
  withScene: null, // what is compared with: a scene, and a head in it
  withHead: "",
  layer: null, // of the reach of masks
  zoom: null, // [first query, last query, first key, last key], exclusive ends; null = all
};

const NUMBERS = new Set(["scene", "query", "key", "withScene", "layer"]);

const SCENES = new Set(["scene", "withScene"]);

/** A store: `get` reads, `set` changes and tells those who listen which names changed. */
export function makeStore(given = {}) {
  let state = { ...START, ...given };
  const listeners = [];
  return {
    get: () => state,
    set(patch) {
      const changed = new Set(Object.keys(patch).filter((name) => !same(patch[name], state[name])));
      if (!changed.size) return;
      const before = state;
      state = { ...state, ...patch };
      for (const listener of listeners) listener(state, changed, before);
    },
    on: (listener) => listeners.push(listener),
  };
}

const same = (a, b) => a === b || (Array.isArray(a) && Array.isArray(b) && a.join() === b.join());

/** The part of an address after #, of what differs from the start. A source whose scenes have names that others can
 * ask for gives `names`: {nameOf(number), numberOf(name)}; they stand in the address, with the head, in any case. */
export function toHash(state, start = START, names = {}) {
  const asked = new URLSearchParams(), always = names.nameOf?.(state.scene) ? ["scene", "head"] : [];
  for (const name of Object.keys(START)) {
    if ((same(state[name], start[name]) && !always.includes(name)) || name === "pinned") continue;
    const value = SCENES.has(name) && state[name] !== null ? names.nameOf?.(state[name]) ?? state[name] : state[name];
    asked.set(name, value === null ? "" : String(value));
  }
  return asked.toString();
}

/** What an address asks for; names it does not know, and numbers that are none, are left out. */
export function fromHash(hash, names = {}) {
  const found = {};
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!(name in START)) continue;
    if (name === "zoom") {
      const ends = text.split(",").map(Number);
      if (text === "" || (ends.length === 4 && ends.every(Number.isInteger))) found.zoom = text === "" ? null : ends;
    } else if (SCENES.has(name) && text !== "" && names.numberOf) {
      const number = names.numberOf(text);
      if (number !== undefined) found[name] = number;
    } else if (NUMBERS.has(name)) {
      if (text === "" || /^\d+$/.test(text)) found[name] = text === "" ? null : Number(text);
    } else if (name !== "pinned") found[name] = text;
  }
  if (found.query !== undefined && found.query !== null) found.pinned = true;
  return found;
}
