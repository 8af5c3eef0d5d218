// The view in the page's address, so that it can be sent; going back leads through tabs and scenes.

import { fromHash, toHash } from "./state.js";

const PAUSE = 250; // milliseconds: browsers refuse addresses that change too often
const STEPS = new Set(["tab", "scene"]);

/** Keep the state in the address from now on. `start` is what an empty address means. Returns what ends it. */
export function keepAddress(store, start) {
  let waiting = null, arriving = false;
  const write = (way) => {
    clearTimeout(waiting);
    waiting = null;
    const place = `#${toHash(store.get(), start)}`;
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
  const arrive = () => {
    clearTimeout(waiting);
    arriving = true;
    store.set({ ...start, pinned: false, ...fromHash(location.hash) });
    arriving = false;
    waiting = setTimeout(write, PAUSE, "replaceState"); // what was not there has given way
  };
  addEventListener("popstate", arrive);
  addEventListener("hashchange", arrive);
  write("replaceState");
  return () => {
    clearTimeout(waiting);
    removeEventListener("popstate", arrive);
    removeEventListener("hashchange", arrive);
  };
}

/** The whole address of the state. */
export const linkTo = (state, start) => `${location.href.replace(/#.*$/, "")}#${toHash(state, start)}`;

/** Put a text where it can be pasted from; false where the browser does not let us. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
