// The view in the page's address, so that it can be sent; going back leads through tabs and scenes.

import { fromHash, toHash } from "../data/state.js";
import { shortened } from "./header.js";

const PAUSE = 250; // milliseconds: browsers refuse addresses that change too often
const STEPS = new Set(["tab", "scene"]);

export const GONE = "This view has been let go; look again.";

/** Keep the state in the address from now on. `start` is what an empty address means. Returns what ends it. */
export function keepAddress(app, start) {
  const { store, source } = app;
  let waiting = null, arriving = false, arrivals = 0;
  const write = (way) => {
    clearTimeout(waiting);
    waiting = null;
    const place = `#${toHash(store.get(), start, source)}`;
    if (place === (location.hash || "#")) return;
    try {
      history[way](null, "", place);
    } catch { /* a page without an address of its own, or too many changes: the view is still right */ }
  };
  store.on((state, changed, before) => {
    if (arriving) return;
    if ([...changed].some((name) => STEPS.has(name)) && before) write("pushState");
    else {
      clearTimeout(waiting);
      waiting = setTimeout(write, PAUSE, "replaceState");
    }
  });
  const arrive = async () => {
    clearTimeout(waiting);
    const hash = location.hash, turn = ++arrivals, there = await broughtScene(app, hash);
    if (turn !== arrivals) return;
    if (!there) {
      app.notice.show(GONE);
      return;
    }
    arriving = true;
    store.set({ ...start, pinned: false, ...fromHash(hash, source) });
    arriving = false;
    titled(app);
    waiting = setTimeout(write, PAUSE, "replaceState"); // what was not there has given way
  };
  addEventListener("popstate", arrive);
  addEventListener("hashchange", arrive);
  write("replaceState");
  store.on(() => titled(app));
  titled(app);
  return () => {
    clearTimeout(waiting);
    removeEventListener("popstate", arrive);
    removeEventListener("hashchange", arrive);
  };
}

/** Whether the text that an address names is there, or could be had of the server. */
async function broughtScene({ scenes, source }, hash) {
  const name = new URLSearchParams(hash.replace(/^#/, "")).get("scene");
  if (!name || !source.numberOf || source.numberOf(name) !== undefined) return true;
  const found = await source.bring(name).catch(() => null);
  if (found !== null) scenes[found.scene] = found.index;
  return found !== null;
}

/** The page is called by the text and the model that it shows. */
function titled(app) {
  const scene = app.scene();
  const title = scene === undefined ? "headwise" : [shortened(scene.text, 60), scene.model, "headwise"].filter(Boolean).join(" - ");
  if (document.title !== title) document.title = title;
}

/** The whole address of the state. */
export const linkTo = (app, start) => `${location.href.replace(/#.*$/, "")}#${toHash(app.store.get(), start, app.source)}`;

/** Put a text where it can be pasted from; false where the browser does not let us. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
