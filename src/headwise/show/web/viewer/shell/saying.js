// What is said to those who listen rather than look, once the choice has come to rest.

import { colouringOf, toldOf } from "../grid/colouring.js";

const REST = 400; // milliseconds

/** Say which head is chosen, and what it does. */
export function saying(app) {
  let waiting = null;
  app.store.on((state, changed) => {
    if (!changed.has("head") && !changed.has("scene")) return;
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const now = app.store.get(), scene = app.scene();
      app.say([`Head ${now.head}`, toldOf(colouringOf(scene, now.colour), now.head), changed.has("scene") ? scene.title : ""].filter(Boolean).join(", "));
    }, REST);
  });
}
