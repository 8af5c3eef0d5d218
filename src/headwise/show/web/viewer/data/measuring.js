// A button that asks the server to measure what a page was made without, and says how far that is.

import { el } from "../draw/dom.js";

/** `what` is asked of a scene; `done` hears of what comes back. */
export function measuringButton(app, what, title, scene, done) {
  const button = el("button", { type: "button", class: "hw-measure", onclick: ask }, title);
  async function ask() {
    button.disabled = true;
    button.textContent = "Measuring…";
    try {
      done(await app.source.ask(what, { scene }, (at, total) => {
        if (total) button.textContent = `Measuring: ${at} of ${total}`;
      }));
    } catch (error) {
      button.disabled = false;
      button.textContent = title;
      app.notice?.show(error.message);
    }
  }
  return button;
}
