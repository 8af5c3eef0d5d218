// The help: how to read what is shown, and every key.

import { el } from "../draw/dom.js";

const WORDS = [
  "Each cell of the grid is one attention head: layers go down, heads go across. A gap parts heads that share keys and values. Click one to see where it looks.",
  "Point at a token to see whom it looks at and who looks at it; click to keep it so. The first token and separators often take most of the attention: they can be hidden, or hidden and the rest scaled up to what it was with them. How much they held is always told.",
  "Hover asks: whom pointing at a token asks, this head or the mean over its layer or over all heads; Lines draws each head of the layer. The key m shows the mean of a layer as a map of its own, and again leads back to the head.",
  "The address names what you see: copy the link to send this very view.",
];

/** `sections()` are the keys: [[title, [{label, says}, ...]], ...]. */
export function helpDialog(app, sections) {
  const body = el("div", { class: "hw-help-body" });
  const close = el("button", { type: "button", class: "hw-help-close", "aria-label": "Close the help", onclick: () => dialog.close() }, "×");
  const dialog = el("dialog", { class: "hw-help", "aria-labelledby": app.id("help") }, close, el("h2", { id: app.id("help") }, "How to read this"), body);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  return {
    element: dialog,
    open() {
      body.replaceChildren(...WORDS.map((text) => el("p", {}, text)), ...sections().filter(([, keys]) => keys.length).map(([title, keys]) => keyTable(title, keys)));
      if (!dialog.open) dialog.showModal();
    },
  };
}

const keyTable = (title, keys) => el("section", {}, el("h3", {}, title), el("dl", { class: "hw-keys" },
  keys.map(({ label, says }) => el("div", {}, el("dt", {}, label.split(" ").map((key) => el("kbd", {}, key))), el("dd", {}, says)))));
