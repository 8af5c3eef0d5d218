// The line at the top of a served page: type a text, pick a model, look.

import { el } from "../draw/dom.js";
import { hasHead } from "../grid/grid_shape.js";

const TELL_AFTER = 150; // milliseconds before progress is shown, so that what is quick does not flicker

export function livePanel(app) {
  const { live } = app.index, panel = { name: "live", title: "Text", alone: true, offered: () => Boolean(live?.look) };
  if (!live?.look) return { ...panel, element: el("div", { hidden: true }), update() {} };
  const bar = barOf(live);
  const state = { app, live, bar, scene: null, began: false, turn: 0 };
  listenLive(state);
  return { ...panel, element: bar.element, update: () => followScene(state) };
}

/** The parts of the line. */
function barOf(live) {
  const text = el("textarea", { rows: "1", dir: "auto", spellcheck: "false", "aria-label": "Text to look at", autocomplete: "off", placeholder: "Type a text" });
  const target = el("textarea", { rows: "1", dir: "auto", spellcheck: "false", "aria-label": "What the decoder reads; empty: it writes by itself", placeholder: "What the decoder reads (empty: it writes by itself)", hidden: true });
  const model = el("select", { "aria-label": "Model" }, live.models.map((name) => el("option", { value: name }, name)));
  const go = el("button", { type: "submit", class: "hw-live-go", title: "Enter, or Ctrl+Enter" }, "Look");
  const stop = el("button", { type: "button", hidden: true }, "Cancel");
  const bar = el("progress", { "aria-label": "How far it is" }), doing = el("span", { class: "hw-quiet" });
  const progress = el("span", { class: "hw-live-progress", hidden: true }, bar, doing), error = el("span", { role: "alert", class: "hw-live-error" });
  const element = el("form", { class: "hw-live", "aria-label": "Look at a text" },
    el("div", { class: "hw-live-texts" }, text, target), el("div", { class: "hw-live-does" }, model, go, stop),
    el("p", { class: "hw-live-line" }, progress, error));
  return { element, text, target, model, go, stop, bar, doing, progress, error };
}

function listenLive(state) {
  const { bar, live } = state;
  bar.element.addEventListener("submit", (event) => {
    event.preventDefault();
    lookAt(state);
  });
  for (const field of [bar.text, bar.target]) {
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.altKey || event.isComposing) return;
      event.preventDefault();
      lookAt(state);
    });
    field.addEventListener("paste", (event) => refuseLong(event, event.clipboardData?.getData("text") ?? "", state));
    field.addEventListener("drop", (event) => refuseLong(event, event.dataTransfer?.getData("text") ?? "", state));
  }
  bar.stop.addEventListener("click", () => state.app.source.drop("look"));
  bar.model.addEventListener("change", () => showTarget(state));
  bar.model.value = live.model;
  showTarget(state);
}

/** A text that the server would refuse does not get into the field. */
function refuseLong(event, text, state) {
  if (!tooLong(text, state.live)) return;
  event.preventDefault();
  state.bar.error.textContent = longLine(text, state.live);
}

const tooLong = (text, live) => new Blob([text]).size > live.most - 10_000;
const longLine = (text, live) => `That text has ${(new Blob([text]).size / 1e6).toFixed(1)} MB; this page takes less than ${live.most / 1e6} MB. Give a part of it.`;

/** Whether the model writes another text than it reads, as far as that is known. */
function showTarget({ app, live, bar }) {
  const name = bar.model.value;
  const crosses = app.scenes.some((scene) => modelAsked(scene) === name && scene.streams.some((stream) => stream.name === "cross"));
  bar.target.hidden = !crosses && !live.targets?.includes(name);
}

/** The model of a scene by the name it can be asked for. */
export const modelAsked = (scene) => scene.asked ?? scene.model;

/** The line shows the text that is shown; where there is none yet, the first one is looked at. */
function followScene(state) {
  const { app, bar, live } = state, scene = app.scene();
  if (scene === undefined) {
    if (state.began) return;
    state.began = true;
    bar.text.value = live.text;
    if (!app.index.gone) lookAt(state); // nobody who follows a link takes another text for the one it was of
    return;
  }
  if (scene === state.scene) return;
  state.scene = scene;
  if (bar.element.contains(document.activeElement) && document.activeElement === bar.text && bar.text.value !== scene.text && bar.go.hidden) return;
  bar.text.value = scene.text;
  if (live.models.includes(modelAsked(scene))) bar.model.value = modelAsked(scene);
  bar.target.value = scene.target ?? "";
  showTarget(state);
}

async function lookAt(state) {
  const { app, bar, live } = state, turn = ++state.turn;
  const text = bar.text.value, target = bar.target.hidden ? "" : bar.target.value;
  bar.error.textContent = "";
  if (!text.trim()) {
    bar.error.textContent = "The text is empty; give at least one word.";
    return;
  }
  if (tooLong(text + target, live)) {
    bar.error.textContent = longLine(text + target, live);
    return;
  }
  await withProgress(state, turn, () => lookedAt(app, { model: bar.model.value, text, ...(target.trim() ? { target } : {}) }, (...told) => tellProgress(bar, told)));
}

async function withProgress(state, turn, work) {
  const { bar } = state;
  bar.stop.hidden = false;
  const shown = setTimeout(() => turn === state.turn && (bar.progress.hidden = false), TELL_AFTER);
  try {
    await work();
  } catch (error) {
    if (turn === state.turn && error.name !== "AbortError") bar.error.textContent = asLine(error);
  } finally {
    clearTimeout(shown);
    if (turn === state.turn) {
      bar.stop.hidden = bar.progress.hidden = true;
      tellProgress(bar, [0, 0, ""]);
    }
  }
}

function tellProgress(bar, [done, total, says]) {
  if (total > 0) {
    bar.bar.max = total;
    bar.bar.value = done;
  } else bar.bar.removeAttribute("value");
  bar.doing.textContent = says;
}

/** Look at a text, and show it: the scene's number. */
export async function lookedAt(app, body, tell) {
  const { scene, index } = await app.source.ask("look", body, tell);
  app.scenes[scene] = index;
  const { head } = app.store.get();
  app.store.set({ scene, head: hasHead(index, head) ? head : index.opens ?? Object.keys(index.heads)[0] ?? "", query: null, key: null, pinned: false, zoom: null });
  app.refresh?.();
  app.say?.(`Looked at ${index.title || index.model}`);
  return scene;
}

/** What went wrong, as a sentence. */
export function asLine(error) {
  const line = String(error?.message ?? error);
  return `${line.charAt(0).toUpperCase()}${line.slice(1)}${/[.!?]$/.test(line) ? "" : "."}`;
}
