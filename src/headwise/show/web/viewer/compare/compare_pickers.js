// Which two are compared: a text and a head for A and for B, and a button that swaps them.

import { el } from "../draw/dom.js";
import { knownHead, pairOf } from "./pairs.js";

let listsMade = 0; // several viewers on a page have lists of different names

/** `update(state, pair)` shows the pair that pairOf gives. */
export function comparePickers(app) {
  const set = (pair) => app.store.set({ scene: pair.a.at, head: pair.a.head, withScene: pair.b?.at ?? null, withHead: pair.b?.head ?? "" });
  const now = () => pairOf(app, app.store.get());
  const a = headPicker(app, "A", (one) => set({ ...now(), a: one }));
  const b = headPicker(app, "B", (one) => set({ ...now(), b: one }));
  const swap = el("button", { type: "button", onclick: () => set({ a: now().b, b: now().a }) }, "Swap");
  const element = el("div", { class: "hw-pickers" }, a.element, swap, b.element);
  return {
    element,
    update(state, pair) {
      swap.disabled = pair.b === null;
      a.show(pair.a);
      b.show(pair.b ?? { at: state.withScene ?? state.scene, head: "" });
    },
  };
}

/** A list of texts (where there are several) and a field for a head, which is refused where the text has none such. */
function headPicker(app, letter, choose) {
  const id = `hw-heads-${(listsMade += 1)}`, list = el("datalist", { id });
  const scenes = el("select", { "aria-label": `Text of ${letter}`, onchange: () => choose({ at: Number(scenes.value), head: field.value || app.store.get().head }) });
  const field = el("input", { type: "text", list: id, size: 8, spellcheck: "false", autocomplete: "off", placeholder: "head", "aria-label": `Head of ${letter}`, onchange: taken });
  const element = el("div", { class: "hw-picker" }, el("b", {}, letter), scenes, field, list);
  let at = null;

  function taken() {
    const scene = app.scene(at), head = field.value.trim(), known = knownHead(scene, head);
    field.setCustomValidity(known ? "" : `There is no head ${head} here; heads are called like ${Object.keys(scene.heads)[0]}.`);
    field.reportValidity();
    if (known) choose({ at, head });
  }
  function show(one) {
    if (scenes.options.length !== app.scenes.length) scenes.replaceChildren(...app.scenes.map((scene, i) => el("option", { value: `${i}` }, scene.title)));
    scenes.hidden = app.scenes.length < 2;
    scenes.value = `${one.at}`;
    if (at !== one.at) list.replaceChildren(...Object.keys(app.scene(one.at).heads).map((head) => el("option", { value: head })));
    at = one.at;
    if (document.activeElement !== field) field.value = one.head;
    field.setCustomValidity("");
  }
  return { element, show };
}
