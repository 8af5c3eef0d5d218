// What a search finds: heads, kinds and numbers of heads, views, words of the text, and the other texts.

import { isolated, plural, share } from "../draw/dom.js";
import { kindCounts, toldOf } from "../grid/colouring.js";
import { sceneName } from "./header.js";

const MOST = { heads: 6, kinds: 4, numbers: 3, words: 8, tabs: 6, scenes: 6 };

/** Everything of this name: [{title, says, patch}, ...]; `patch` is what choosing it changes in the state. */
export function foundBy(app, text, tabs) {
  const asked = text.trim().toLowerCase();
  if (!asked) return [];
  const scene = app.scene();
  const order = /\d/.test(asked) ? [headsBy, kindsBy] : [kindsBy, headsBy];
  return [...order.flatMap((by) => by(scene, asked)), ...tabsBy(tabs, asked), ...numbersBy(scene, asked),
    ...wordsBy(app, scene, asked), ...scenesBy(app, asked)];
}

function headsBy(scene, asked) {
  if (!/^[a-z]*\.?\d*\.?\d*$/.test(asked)) return [];
  const ids = Object.keys(scene.heads), first = scene.colourings?.[0] ?? null;
  const found = ids.filter((id) => id === asked || id.startsWith(asked));
  found.sort((a, b) => (b === asked) - (a === asked));
  return found.slice(0, MOST.heads).map((id) => ({ title: id, says: ["head", toldOf(first, id)].filter(Boolean).join(", "), patch: { head: id } }));
}

function kindsBy(scene, asked) {
  const found = (scene.colourings ?? []).filter((one) => one.kinds).flatMap((one) =>
    kindCounts(one).filter(([kind]) => kind.name.toLowerCase().includes(asked)).map(([kind, at, count]) => {
      const best = strongest(one, at);
      return { title: kind.name, says: `${plural(count, "head")}, ${one.title.toLowerCase()}; most: ${best[0]} ${share(best[1])}`,
        patch: { colour: one.name, kind: kind.name, head: best[0] } };
    }));
  return found.slice(0, MOST.kinds);
}

function strongest(colouring, kind) {
  let best = ["", -1];
  for (const [head, [at, mass]] of Object.entries(colouring.values)) if (at === kind && (mass ?? 0) > best[1]) best = [head, mass ?? 0];
  return best;
}

const numbersBy = (scene, asked) => (scene.colourings ?? [])
  .filter((one) => one.title.toLowerCase().includes(asked) || one.name.toLowerCase().includes(asked)).slice(0, MOST.numbers)
  .map((one) => ({ title: one.title, says: "colour of the grid", patch: { colour: one.name, kind: "" } }));

const tabsBy = (tabs, asked) => tabs.filter((tab) => tab.title.toLowerCase().startsWith(asked)).slice(0, MOST.tabs)
  .map((tab) => ({ title: tab.title, says: "view", patch: { tab: tab.name } }));

function wordsBy(app, scene, asked) {
  const [rows, columns] = app.sidesOf(app.store.get().head, scene);
  const found = wordsOf(app, rows, asked, "query");
  return (rows === columns ? found : [...found, ...wordsOf(app, columns, asked, "key")]).slice(0, MOST.words);
}

/** Words of a side that have this in them, then tokens; choosing one pins it. */
function wordsOf(app, side, asked, as) {
  const other = as === "query" ? "key" : "query", seen = new Set(), found = [];
  for (const unit of ["words", "tokens"]) app.units(side, unit).forEach(({ label, first }, at) => {
    if (seen.has(first) || !label.toLowerCase().includes(asked)) return;
    seen.add(first);
    found.push({ title: isolated(label.trim()), says: `${unit.slice(0, -1)} ${at}${side.name ? ` of the ${side.name}` : ""}`,
      patch: { [as]: first, [other]: null, pinned: true } });
  });
  return found;
}

const scenesBy = (app, asked) => (app.scenes.length < 2 ? [] : app.scenes
  .map((scene, at) => ({ title: sceneName(scene, at), says: "text and model", patch: { scene: at }, text: `${scene.model} ${scene.text}` }))
  .filter((one) => `${one.title} ${one.text}`.toLowerCase().includes(asked)).slice(0, MOST.scenes));
