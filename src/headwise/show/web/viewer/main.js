// The viewer: puts the panels together around one state, and keeps that in the address.

import { el } from "./dom.js";
import { makeApp } from "./app.js";
import { makeStore, fromHash, toHash } from "./state.js";
import { gridPanel } from "./grid.js";
import { mapPanel } from "./map.js";
import { flowPanel } from "./flow.js";
import { neuronsPanel } from "./neurons.js";

/** Panels beside each other all the time, and those of which one tab shows one. */
const ASIDE = [gridPanel];
const TABS = [mapPanel, flowPanel, neuronsPanel];

/** Show what a source has in `root`. `address` says whether the view is kept in the page's address. */
export async function view(root, source, { address = true } = {}) {
  const index = await source.index();
  root.classList.add("headwise");
  const store = makeStore({ head: firstHead(index), ...index.start });
  if (address) store.set(fromHash(location.hash));
  const app = makeApp(root, source, index, store);
  const aside = ASIDE.map((make) => make(app)), tabs = TABS.map((make) => make(app));
  const stage = el("div", { class: "hw-stage" }, tabs.map((tab) => tab.element));
  root.replaceChildren(
    el("div", { class: "hw-body" }, aside.map((panel) => panel.element), stage),
    el("p", { class: "hw-said", role: "status", "aria-live": "polite" }),
  );
  const show = (state, changed) => {
    for (const panel of aside) panel.update(state, changed);
    for (const tab of tabs) {
      tab.element.hidden = tab.name !== state.tab;
      if (tab.name === state.tab) tab.update(state, changed);
    }
  };
  soon(store, show);
  const start = store.get();
  if (address) {
    store.on((state) => history.replaceState(null, "", `#${toHash(state)}`));
    addEventListener("hashchange", () => store.set(fromHash(location.hash)));
  }
  show(start, new Set(Object.keys(start)));
  return app;
}

/** Draw once for all that changes between two frames. */
function soon(store, show) {
  let waiting = null;
  store.on((state, changed) => {
    if (waiting !== null) {
      for (const name of changed) waiting.add(name);
      return;
    }
    waiting = new Set(changed);
    requestAnimationFrame(() => {
      const names = waiting;
      waiting = null;
      show(store.get(), names);
    });
  });
}

const firstHead = (index) => Object.keys(index.scenes[0]?.heads ?? {})[0] ?? "";
