// The head of the viewer: which text and model this is, how exact the numbers are, and what was done to it.

import { el, plural, short } from "../draw/dom.js";

const LONGEST = 160; // characters of the text that the heading has

export function headerPanel(app) {
  const pick = el("select", { class: "hw-scenes", "aria-label": "Text and model", onchange: () => app.store.set({ scene: Number(pick.value) }) });
  const text = el(app.address ? "h1" : "h2", { class: "hw-text", dir: "auto" });
  const facts = el("p", { class: "hw-facts" }), note = el("p", { class: "hw-note", hidden: true });
  const element = el("div", { class: "hw-title" }, el("div", { class: "hw-heading" }, pick, text), facts, note);
  let built = null, count = 0;

  function update(state) {
    if (count !== app.scenes.length) {
      count = app.scenes.length;
      pick.replaceChildren(...app.scenes.map((scene, at) => el("option", { value: `${at}` }, sceneName(scene, at))));
      pick.hidden = count < 2;
    }
    const scene = app.scene(state.scene);
    pick.value = String(app.scenes.indexOf(scene));
    if (built === scene) return;
    built = scene;
    text.textContent = shortened(sceneText(scene)) || "(no text)";
    facts.replaceChildren(...sceneFacts(scene).flatMap((fact, at) => [at ? " · " : "", fact]));
    note.textContent = scene.note ?? "";
    note.hidden = !scene.note;
  }
  return { name: "header", title: "Heading", element, update };
}

/** A text on one line, its beginning where it is long. */
export function shortened(text, most = LONGEST) {
  const letters = [...(text ?? "").replace(/\s+/g, " ").trim()];
  return letters.length > most ? `${letters.slice(0, most - 1).join("").trimEnd()}…` : letters.join("");
}

/** The text of a scene; of one whose model reads no text (sound, a picture) the text that it writes. */
export const sceneText = (scene) => [scene.text, ...scene.sides.map((side) => side.text)].find((text) => text?.trim()) ?? "";

/** How a scene is called among others. */
export const sceneName = (scene, at) => scene.title || `${scene.model}: ${shortened(sceneText(scene), 40)}` || `text ${at + 1}`;

/** What is so of a whole scene. */
export function sceneFacts(scene) {
  const layers = scene.streams.reduce((sum, stream) => sum + stream.layers.length, 0);
  const tokens = scene.sides.map((side) => [side.name, plural(side.tokens.length, "token")].filter(Boolean).join(" "));
  return [
    scene.model, ...tokens, `${plural(Object.keys(scene.heads).length, "head")} in ${plural(layers, "layer")}`,
    scene.verified === null || scene.verified === undefined ? null
      : `recomputed head outputs within ${short(scene.verified)} of the model's own`,
    scene.least > 0 ? `weights under ${short(scene.least)} are pooled` : null,
  ].filter(Boolean);
}
