// The facts of the view for paper: written under the figure when the page is printed, not seen on the screen.

import { el } from "../draw/dom.js";
import { factsOf } from "../data/facts.js";
import { colouringOf, toldOf } from "../grid/colouring.js";

/** A caption that is up to date whenever it is printed. */
export function captionPanel(app) {
  const element = el("div", { class: "hw-caption" });
  const update = (state) => {
    const scene = app.scene(), colouring = colouringOf(scene, state.colour), told = toldOf(colouring, state.head);
    const grid = colouring === null ? [] : [`Grid: ${colouring.title.toLowerCase()}${told ? `; of ${state.head}: ${told}` : ""}.`];
    element.replaceChildren(...[...factsOf(app, state), ...grid].map((line) => el("p", { dir: "auto" }, line)));
  };
  return { name: "caption", title: "Caption", element, update };
}
