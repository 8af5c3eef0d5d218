// The viewer: puts the panels together around one state, and keeps that in the address.

import { el } from "../draw/dom.js";
import { makeApp } from "../data/app.js";
import { makeStore, fromHash, START } from "../data/state.js";
import { corrected } from "./checking.js";
import { GONE, keepAddress } from "./address.js";
import { themeOf } from "./theme.js";
import { noticeOf, guarded } from "./notice.js";
import { headerPanel } from "./header.js";
import { barPanel } from "./bar.js";
import { searchPanel } from "./search.js";
import { captionPanel } from "./caption.js";
import { paperSheet } from "../export/paper.js";
import { helpDialog } from "./help.js";
import { hearKeys, keysOf, viewerKeys } from "./keys.js";
import { hearSelects, openByKey } from "./leaving.js";
import { tabsOf } from "./tabs.js";
import { saying } from "./saying.js";
import { gridPanel } from "../grid/grid.js";
import { mapPanel } from "../map/map.js";
import { linesPanel } from "../lines/lines.js";
import { comparePanel } from "../compare/compare.js";
import { flowPanel } from "../masks/flow.js";
import { neuronsPanel } from "../neurons/neurons.js";
import { tokensPanel } from "../tokens/tokens.js";
import { numbersPanel } from "../numbers/numbers.js";
import { exportPanel } from "../export/export.js";

/** Panels that are always there, and those of which one tab shows one. */
const ASIDE = [tokensPanel, gridPanel, numbersPanel, exportPanel];
const TABS = [mapPanel, linesPanel, comparePanel, flowPanel, neuronsPanel];

/** Where a panel that is always there stands, by its name; the others are at the right. */
const PLACES = { live: "top", tokens: "top", grid: "left", export: "bar" };

/** Show what a source has in `root`. `address` says whether the page is the viewer's own: its address keeps the view,
 * and keys are heard wherever the focus is. `aside` and `tabs` are panels that only some pages have. Returns the app; `app.stop()` ends it. */
export async function view(root, source, { address = true, aside = [], tabs = [] } = {}) {
  root.classList.add("headwise");
  try {
    return await viewed(root, source, address, { aside: [...aside, ...ASIDE], tabs: [...TABS, ...tabs] });
  } catch (error) {
    root.replaceChildren(el("p", { class: "hw-notice", role: "alert" },
      `This page's data cannot be read (${error?.message ?? error}); the file may be damaged or cut short.`));
    throw error;
  }
}

async function viewed(root, source, address, panels) {
  const index = await source.index();
  if (!index.scenes.length && !index.live) throw new Error("there is no text in it");
  const opens = index.start?.head || index.scenes[0]?.opens || Object.keys(index.scenes[0]?.heads ?? {})[0] || "";
  const start = { ...START, ...index.start, head: opens };
  const store = makeStore({ ...start, ...(address ? fromHash(location.hash, source) : {}) });
  const app = makeApp(root, source, index, store), prefix = `hw-${Math.random().toString(36).slice(2, 8)}`;
  Object.assign(app, { address, opens, id: (name) => `${prefix}-${name}`, notice: noticeOf() });
  const parts = partsOf(app, start, panels);
  root.replaceChildren(...layout(app, parts));
  const ends = connect(app, parts, start);
  if (index.gone) app.notice.show(GONE);
  app.stop = () => ends.forEach((end) => end());
  return app;
}

/** Every panel, and the others of the shell. */
function partsOf(app, start, panels) {
  const tabs = tabsOf(app, panels.tabs.map((make) => make(app)), app.notice), aside = panels.aside.map((make) => make(app));
  const parts = { tabs, aside, show: () => {} };
  app.panels = [...aside, ...tabs.panels];
  parts.theme = themeOf(app.root, () => parts.show(app.store.get(), new Set(["theme", ...Object.keys(START)])));
  parts.search = searchPanel(app, () => tabs.panels.filter((panel) => tabs.names().includes(panel.name)));
  parts.help = helpDialog(app, () => [["Keys", parts.keys], ...[...aside, tabs.shown()].map((panel) => [panel?.title, keysOf(panel)])]);
  parts.header = headerPanel(app);
  parts.caption = captionPanel(app);
  parts.paper = paperSheet(app);
  parts.bar = barPanel(app, { theme: parts.theme, help: parts.help.open, start });
  parts.keys = viewerKeys(app, { search: parts.search, help: parts.help.open, tabs, exports: () => openByKey(app, aside.find((panel) => panel.name === "export")?.element), notice: app.notice });
  return parts;
}

function layout(app, { tabs, aside, search, help, header, bar, caption, paper }) {
  const at = (place) => aside.filter((panel) => (PLACES[panel.name] ?? "right") === place).map((panel) => panel.element);
  bar.ends.prepend(...at("bar"));
  aside.find((panel) => panel.name === "grid").element.querySelector(".hw-legend").before(bar.colour);
  const right = at("right");
  return [el("div", { class: "hw-frame", tabindex: -1 },
    el("div", { class: "hw-top" }, header.element, search.element), bar.element, app.notice.element, at("top"),
    el("div", { class: `hw-body${right.length ? " hw-three" : ""}` }, el("div", { class: "hw-left" }, at("left")), tabs.element,
      right.length ? el("div", { class: "hw-right" }, right) : null), caption.element, paper.element,
    el("p", { class: "hw-said", role: "status", "aria-live": "polite" }), help.element)];
}

/** Let all parts hear of changes; returns what ends that. */
function connect(app, parts, start) {
  const { store } = app, { tabs, aside, header, bar, caption } = parts;
  const correct = () => {
    const [patch, line] = corrected(app, store.get(), tabs.names(), store.refused());
    if (line) app.notice.show(line);
    store.set(patch);
  };
  store.on(correct);
  correct();
  parts.show = (state, changed) => {
    const some = app.scenes.length > 0; // a server has none before the first text
    if (some) tabs.update(state, changed); // first: a canvas that is given a font lays out whatever has changed
    for (const panel of some ? [header, bar, caption, ...aside] : aside.filter((panel) => panel.alone)) guarded(panel, app.notice, state, changed);
    app.root.classList.toggle("hw-empty", !some);
  };
  app.refresh = () => parts.show(store.get(), new Set(Object.keys(START)));
  soon(store, (state, changed) => parts.show(state, changed));
  saying(app);
  const panelKeys = () => [...keysOf(tabs.shown()), ...aside.flatMap(keysOf)];
  const ends = [hearKeys(app, parts.keys, panelKeys), hearSelects(app), parts.theme.stop, parts.paper.stop];
  if (app.address) ends.push(keepAddress(app, start));
  app.refresh();
  return ends;
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
