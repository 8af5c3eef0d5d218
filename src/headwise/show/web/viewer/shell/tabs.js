// The panels of which one is shown at a time, and the row of their names.

import { el } from "../draw/dom.js";
import { guarded } from "./notice.js";

export function tabsOf(app, panels, notice) {
  const missed = new Map(panels.map((panel) => [panel, null])); // what changed while it was not shown; null = all
  const buttons = panels.map((panel) => tabButton(app, panel));
  const bodies = panels.map((panel) => el("div", { role: "tabpanel", id: app.id(`panel-${panel.name}`), class: "hw-tab-body",
    "aria-labelledby": app.id(`tab-${panel.name}`), tabindex: -1, hidden: true }, panel.element));
  const row = el("div", { role: "tablist", class: "hw-tabs", "aria-label": "Views" }, buttons);
  const offered = () => panels.filter((panel) => panel.offered?.(app) !== false);
  const shown = (state = app.store.get()) => offered().find((panel) => panel.name === state.tab) ?? offered()[0];
  row.addEventListener("keydown", (event) => alongTabs(event, app, offered(), shown()));

  function update(state, changed) {
    const now = shown(state), there = new Set(offered());
    panels.forEach((panel, at) => {
      const on = panel === now;
      buttons[at].hidden = !there.has(panel);
      buttons[at].setAttribute("aria-selected", String(on));
      buttons[at].tabIndex = on ? 0 : -1;
      bodies[at].hidden = !on;
      if (!on && missed.get(panel) !== null) for (const name of changed) missed.get(panel).add(name);
    });
    if (now === undefined) return;
    const before = missed.get(now) ?? Object.keys(state);
    missed.set(now, new Set());
    guarded(now, notice, state, new Set([...changed, ...before]));
  }
  return {
    element: el("div", { class: "hw-stage" }, row, bodies), panels, update, shown,
    names: () => offered().map((panel) => panel.name),
    focus() { // the picture where it takes keys, else all of the view
      const body = bodies[panels.indexOf(shown())];
      (body?.querySelector("canvas[tabindex='0']") ?? body)?.focus({ preventScroll: true });
    },
  };
}

function tabButton(app, panel) {
  return el("button", {
    type: "button", role: "tab", id: app.id(`tab-${panel.name}`), "data-tab": panel.name,
    "aria-controls": app.id(`panel-${panel.name}`), onclick: () => app.store.set({ tab: panel.name }),
  }, panel.title);
}

function alongTabs(event, app, offered, now) {
  const at = offered.indexOf(now), to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: offered.length - 1 }[event.key];
  if (to === undefined || !offered.length) return;
  event.preventDefault();
  const panel = offered[(to + offered.length) % offered.length];
  app.store.set({ tab: panel.name });
  app.root.querySelector(`#${app.id(`tab-${panel.name}`)}`).focus();
}
