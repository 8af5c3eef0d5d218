// The tab of masks: whom they let influence whom, layer by layer, beside what an edit of each token really moves.

import { el, isolated } from "../draw/dom.js";
import { readFlow, readReach } from "./reach_data.js";
import { measuringButton } from "../data/measuring.js";
import { reachView } from "./reach_view.js";
import { fromBase64 } from "../data/source.js";

export function flowPanel(app) {
  const stage = el("div"), bar = el("div", { class: "hw-flow-bar" });
  const element = el("section", { class: "hw-flow", "aria-label": "Masks" }, bar, stage);
  let built = "", building = null, view = null, memory = false;

  function build(state, which) {
    const key = `${state.scene} ${which}`;
    if (built !== key) building = made(state, which, (built = key));
    return building;
  }

  async function made(state, which, key) {
    const at = state.scene;
    view = null;
    const [told, found] = await Promise.all([app.told("reach", at), app.told("flow", at)]);
    if (built !== key) return;
    const flows = found?.flows ?? null;
    if (told === null) return stage.replaceChildren(el("p", { class: "hw-quiet" }, "This page was made without the reach of its masks."));
    bar.replaceChildren(...choices(told, which), ...measureButton(flows, at));
    view = reachView(givenFor(told, flows, which, at));
    stage.replaceChildren(view.element);
    view.draw();
  }

  /** What the view of one stream is given. */
  function givenFor(told, flows, which, at) {
    const scene = app.scene(at), reach = readReach(told, which), crossed = Boolean(told.across);
    const stream = !crossed ? scene.streams[0] : scene.streams.find((one) => one.name === (which === "encoder" ? "encoder" : "decoder"));
    const cross = scene.streams.find((one) => one.name === "cross");
    const side = scene.sides[stream.queries], source = crossed && which === "own" ? scene.sides[cross.keys] : null;
    const measured = (name) => {
      const found = (flows ?? []).find((one) => one.stream === name);
      return found ? { ...readFlow(found, fromBase64), kept: new Map() } : null;
    };
    const labels = side.tokens.map(([label]) => label), sources = source?.tokens.map(([label]) => label) ?? null;
    reach.encoderIds = told.ids?.encoder;
    return {
      reach, flow: measured(stream.name), crossFlow: source === null ? null : measured("cross"), heads: told.heads ?? [], labels, sources,
      spoken: spokenTokens(labels, sources), facts: [scene.model, `Text: ${shortText(side.text)}`], colours: () => app.colours(),
      state: () => pointed(app.store.get()), set: point,
    };
  }

  const pointed = ({ layer, query, key, pinned }) => ({ layer, query, key, memory, pinned });

  /** `memory`: whether the key is a token of the encoder's text, which the state does not say. */
  function point({ memory: across, ...patch }) {
    if (across !== undefined) memory = across;
    app.store.set(patch);
    if (across !== undefined) view?.draw();
  }

  function choices(told, which) {
    if (!told.across) return [];
    return [["own", "Decoder"], ["encoder", "Encoder"]].map(([name, title]) => el("button", {
      type: "button", "aria-pressed": String(which === name), onclick: () => build(app.store.get(), name),
    }, title));
  }

  /** Where a server can measure, and has not. */
  function measureButton(flows, at) {
    if (flows !== null || !app.index.live?.flow) return [];
    return [measuringButton(app, "flow", "Measure what flows", at, (found) => {
      app.keep("flow", at, found);
      const [scene, which] = built.split(" ");
      built = "";
      if (scene === String(at)) build(app.store.get(), which);
    })];
  }

  const sideOf = (state) => (state.head.startsWith("encoder.") ? "encoder" : "own");

  /** The pictures, also of a tab that was never shown. */
  async function figures(state, width) {
    if (built.split(" ")[0] !== String(state.scene)) build(state, sideOf(state));
    await building;
    return view?.figures(width) ?? [];
  }

  function update(state, changed) {
    const which = sideOf(state);
    const now = built.split(" ");
    if (now[0] !== String(state.scene) || changed.has("head") && now[1] !== which && app.scene().streams.length > 1) build(state, which);
    else view?.draw();
  }
  return { name: "masks", title: "Masks", element, update, figures };
}

const shortText = (text) => (text.length > 120 ? `${text.slice(0, 119)}…` : text);

/** How a token is named in a sentence. */
function spokenTokens(labels, sources) {
  return (j, memory = false) => `“${isolated((memory && sources ? sources : labels)[j] ?? "")}” (${j})`;
}
