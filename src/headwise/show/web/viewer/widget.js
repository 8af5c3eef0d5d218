// The viewer in a notebook: its data is in the widget's model or with the kernel, its state in the model too.

import { el } from "./draw/dom.js";
import { view } from "./shell/main.js";
import { START } from "./data/state.js";

const KERNEL_WAIT = 30000; // milliseconds to wait for a kernel
const TOLD_AFTER = 150; // and to gather what changes before the kernel is told

/** Show a widget's model in an element of the notebook; what it returns ends that. */
async function renderWidget({ model, el: place }) {
  const root = el("div", { "data-lm-suppress-shortcuts": "true" }); // JupyterLab leaves its keys alone
  const ends = [];
  const on = (name, run) => {
    model.on(name, run);
    ends.push(() => model.off(name, run));
  };
  place.append(root);
  if (model.get("height")) Object.assign(root.style, { maxHeight: model.get("height"), overflow: "auto" });
  const theme = themeAround(place);
  if (theme) root.dataset.theme = theme;
  const app = await view(root, widgetSource(model, on), { address: false });
  ends.push(app.stop);
  keepState(app.store, model, on);
  return () => ends.forEach((end) => end());
}

/** The source of a widget: bytes that are in the model, and what its kernel answers. */
function widgetSource(model, on) {
  const ask = askKernel(model, on);
  return {
    index: async () => {
      const index = model.get("index");
      return { ...index, start: { ...index.start, ...known(model.get("state")) } };
    },
    async chunk(scene, key) {
      const ends = model.get("places")[`${scene}/${key}`];
      if (ends) return plainBytes(model.get("chunks")).subarray(...ends);
      if (key.startsWith("mean/") && `${scene}/${firstHead(model, scene)}` in model.get("places")) return null; // worked out here
      return ask({ what: "chunk", scene, key });
    },
    rows: (scene, head, from, to) => ask({ what: "rows", scene, head, from, to }),
  };
}

/** The first head of a text. */
const firstHead = (model, scene) => Object.keys(model.get("index").scenes[scene].heads)[0];

/** A question to the kernel, answered with bytes; refused where it says why not, or says nothing for long. */
function askKernel(model, on) {
  const waiting = new Map();
  on("msg:custom", (told, buffers) => {
    const one = waiting.get(told?.id);
    if (one === undefined) return; // another view of the same model has asked
    waiting.delete(told.id);
    clearTimeout(one.timer);
    if (told.error) one.refuse(new Error(told.error));
    else one.answer(plainBytes(buffers[0]));
  });
  return (body) => new Promise((answer, refuse) => {
    const id = `${Date.now()}-${Math.random()}`;
    const timer = setTimeout(() => {
      waiting.delete(id);
      refuse(new Error("the notebook's kernel does not answer: it is busy or gone; run the cell again"));
    }, KERNEL_WAIT);
    waiting.set(id, { answer, refuse, timer });
    model.send({ ...body, id });
  });
}

/** What is looked at, in the model and in the store alike. */
function keepState(store, model, on) {
  let timer = null;
  const tell = () => {
    timer = null;
    model.set("state", { ...model.get("state"), ...known(store.get()) });
    model.save_changes();
  };
  store.on(() => { timer ??= setTimeout(tell, TOLD_AFTER); });
  on("change:state", () => store.set(known(model.get("state"))));
  tell();
}

const known = (state) => Object.fromEntries(Object.entries(state ?? {}).filter(([name]) => Object.hasOwn(START, name)));

/** Bytes, however a notebook hands them over. */
function plainBytes(given) {
  if (given instanceof Uint8Array) return given;
  if (given instanceof ArrayBuffer) return new Uint8Array(given);
  return new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
}

/** "light" or "dark", by the ground that the notebook has behind an element; "" where none is painted. */
function themeAround(place) {
  for (let at = place; at; at = at.parentElement ?? at.getRootNode().host) {
    const [red, green, blue, cover = 1] = (getComputedStyle(at).backgroundColor.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
    if (cover > 0.5) return 0.299 * red + 0.587 * green + 0.114 * blue < 128 ? "dark" : "light";
  }
  return "";
}

export default { render: renderWidget };
