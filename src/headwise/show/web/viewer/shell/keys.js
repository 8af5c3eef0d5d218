// The keyboard: who hears a key, and what the keys of the viewer do.

import { hasHead, headMoved, placeOf } from "../grid/grid_shape.js";

const ARROWS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };
const FAR = { Home: "start", End: "end", PageUp: "pageup", PageDown: "pagedown", "ctrl+Home": "top", "ctrl+End": "bottom" };

/** A key as it is called: "a", "?", "ArrowLeft", "ctrl+z", "shift+ArrowLeft". */
function keyName(event) {
  const wide = event.key.length > 1;
  return `${event.ctrlKey || event.metaKey ? "ctrl+" : ""}${event.altKey ? "alt+" : ""}${wide && event.shiftKey ? "shift+" : ""}${event.key}`;
}

const sameKey = (given) => (given.length > 1 ? given.replace(/^(ctrl|shift|alt)[-+]/i, (all, name) => `${name.toLowerCase()}+`) : given);

/** The keys of the viewer itself: [{keys, label, says, run(event), within?}, ...]. */
export function viewerKeys(app, { search, help, tabs, exports, notice }) {
  const { store } = app, set = (patch) => store.set(patch), state = () => store.get();
  const go = (step) => set({ head: headMoved(app.scene(), state().head, step) });
  const step = (by) => app.scenes.length > 1 && set({ scene: (state().scene + by + app.scenes.length) % app.scenes.length });
  return [
    { keys: Object.keys(ARROWS), label: "← → ↑ ↓", says: "the next head", run: (event) => go(ARROWS[event.key]) },
    { keys: Object.keys(FAR), label: "Home End PgUp PgDn", says: "in the grid: the ends of a layer (with Ctrl of all), five layers on",
      within: ".hw-grid", run: (event) => go(FAR[keyName(event)]) },
    { keys: ["Enter"], label: "Enter", says: "in the grid: on to the picture of this head", within: ".hw-grid", run: () => tabs.focus() },
    { keys: ["m"], label: "m", says: "the mean of this head's layer, and back", run: () => set({ head: meanOrBack(app) }) },
    { keys: ["/"], label: "/", says: "find a head, a kind of head, a view or a word", run: () => search.focus() },
    { keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"], label: "1 2 3 …", says: "the views, in their order", run: (event) => {
      const name = tabs.names()[Number(event.key) - 1];
      if (name !== undefined) set({ tab: name });
    } },
    { keys: ["w"], label: "w", says: "words or tokens", run: () => set({ unit: state().unit === "words" ? "tokens" : "words" }) },
    { keys: [",", "."], label: ", .", says: "pin the token before or after", run: (event) => set(nextQuery(app, event.key === "," ? -1 : 1)) },
    { keys: ["<", ">"], label: "< >", says: "pin the token looked at before or after", run: (event) => set(nextKey(app, event.key === "<" ? -1 : 1)) },
    { keys: ["c"], label: "c", says: "mark this head for comparison, or no longer", run: () => set(markedHead(app)) },
    { keys: ["[", "]"], label: "[ ]", says: "the text or model before or after", run: (event) => step(event.key === "[" ? -1 : 1) },
    { keys: ["e"], label: "e", says: "save a picture", run: exports },
    { keys: ["?"], label: "?", says: "this help", run: help },
    { keys: ["Escape"], label: "Esc", says: "let go: of a line, of the kind that stands out, of what is pinned", run: () => letGo(app, notice) },
  ];
}

/** The mean of a head's layer; of a mean the head it was come from, else its first. */
function meanOrBack(app) {
  const { head } = app.store.get(), scene = app.scene();
  if (head.startsWith("mean/")) return app.left?.mean === head && hasHead(scene, app.left.head) ? app.left.head : headMoved(scene, head, "right");
  const { stream, row } = placeOf(scene, head), mean = `mean/${scene.streams[stream].layers[row].id}`;
  app.left = { mean, head };
  return mean;
}

/** The token (of words the first) before or after the pinned one, from the last one on. */
function nextQuery(app, by) {
  const { query, head } = app.store.get(), next = nextToken(app.units(app.sidesOf(head)[0]), query, by);
  return next === null ? {} : { query: next, key: null, pinned: true };
}

/** The same of the token looked at; the one that looks stays. */
function nextKey(app, by) {
  const { key, head } = app.store.get(), next = nextToken(app.units(app.sidesOf(head)[1]), key, by);
  return next === null ? {} : { key: next, pinned: true };
}

function nextToken(units, token, by) {
  if (!units.length) return null;
  const now = token === null ? (by > 0 ? -1 : units.length) : units.findIndex(({ first, last }) => first <= token && token < last);
  return units[Math.min(Math.max(now + by, 0), units.length - 1)].first;
}

function markedHead(app) {
  const { scene, head, withScene, withHead } = app.store.get();
  return withHead === head && withScene === scene ? { withScene: null, withHead: "" } : { withScene: scene, withHead: head };
}

function letGo(app, notice) {
  const { kind } = app.store.get();
  if (!notice.element.hidden) notice.hide();
  else if (kind) app.store.set({ kind: "" });
  else app.store.set({ query: null, key: null, pinned: false });
}

/** Hear the keys of `entries()` in `root`; of a page that is the viewer's own, also where nothing has the focus. */
export function hearKeys(app, entries, panelKeys) {
  const place = app.address ? document : app.root;
  const hear = (event) => {
    if (!app.scenes.length || event.defaultPrevented || event.isComposing || elsewhere(app.root, event)) return;
    const name = keyName(event), found = [...panelKeys(), ...entries].find((one) => one.keys.some((key) => sameKey(key) === name));
    if (found === undefined || isField(event.composedPath()[0], name)) return;
    if (found.within && !event.composedPath().some((one) => one.matches?.(found.within))) return;
    event.preventDefault();
    if (!app.address) event.stopPropagation(); // a notebook has its own use for arrows
    found.run(event);
  };
  place.addEventListener("keydown", hear);
  return () => place.removeEventListener("keydown", hear);
}

/** Whether a key was meant for something that is not this viewer, or for a dialog. */
function elsewhere(root, event) {
  const path = event.composedPath();
  return path.some((one) => one.localName === "dialog") || (!path.includes(root) && path[0] !== document.body && path[0] !== document.documentElement);
}

/** Whether an element wants the key for itself. */
function isField(element, name) {
  if (element?.isContentEditable || element?.matches?.("textarea, input:not([type=radio], [type=checkbox], [type=button])")) return true;
  if (element?.matches?.("select")) return /Arrow|Home|End|Page|Enter| /.test(name);
  return Boolean(element?.matches?.("input[type=radio], [role=tab], [role=slider]")) && /Arrow|Home|End|Page/.test(name);
}

/** The keys a panel offers, in the form of the viewer's own. */
export const keysOf = (panel) => (panel?.keys ?? []).map(([key, says, run]) => ({ keys: [key], label: key, says, run }));
