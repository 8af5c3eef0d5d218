// The bar of controls: the unit, what is set apart, what the grid is coloured by, and the look of the page.

import { el } from "../draw/dom.js";
import { copyText, linkTo } from "./address.js";
import { THEMES } from "./theme.js";

/** Whom pointing at a token asks, with what that says. */
const SCOPES = [
  ["head", "this head", "Pointing at a token shows where this head looks"],
  ["layer", "its layer", "Pointing at a token shows the mean over the heads of its layer; Lines draws each of them in a colour of its own. For a map of that mean press m"],
  ["all", "all heads", "Pointing at a token shows the mean over all heads"],
];
const WAYS = [["shown", "shown"], ["hidden", "hidden"], ["renormalised", "renormalised"]];

/** `theme` is theme.js's, `help` opens the help, `start` is what an empty address means. */
export function barPanel(app, { theme, help, start }) {
  const choices = [
    segments(app, "unit", "Unit", [["tokens", "tokens", "Rows and columns are the model's tokens"],
      ["words", "words", "To a word the sum over its tokens, from a word their mean"]]),
    segments(app, "scope", "Hover asks", SCOPES),
    pickOne(app, "first", "First token", () => WAYS),
    pickOne(app, "separators", "Separators", (scene) => (scene.sides.some((side) => side.separators.length) ? WAYS : [])),
  ];
  const colour = pickOne(app, "colour", "Colour by", (scene) => (scene.colourings ?? []).map((one) => [one.name, one.title]));
  colour.element.classList.add("hw-colour-by"); // stands at the grid
  const ends = el("div", { class: "hw-controls-end" }, themePick(theme), app.address ? linkButton(app, start) : null,
    el("button", { type: "button", class: "hw-help-open", "aria-label": "Help: what is shown, and all keys", onclick: help }, "?"));
  const box = el("div", { class: "hw-choices", id: app.id("choices") }, choices.map((one) => one.element));
  const element = el("div", { class: "hw-controls hw-foldable", role: "group", "aria-label": "How it is shown" }, foldOf(app, box), box, ends);
  const update = (state) => [...choices, colour].forEach((one) => one.update(state));
  return { name: "bar", title: "Controls", element, ends, colour: colour.element, update };
}

/** The button that folds the choices where there is little room; Esc and a press elsewhere fold them again. */
function foldOf(app, box) {
  const fold = (open) => {
    box.classList.toggle("hw-open", open);
    button.setAttribute("aria-expanded", String(open));
  };
  const button = el("button", { type: "button", class: "hw-fold", "aria-expanded": "false", "aria-controls": box.id,
    onclick: () => fold(!box.classList.contains("hw-open")) }, "View");
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.classList.contains("hw-open")) return;
    event.preventDefault();
    event.stopPropagation();
    fold(false);
    button.focus();
  });
  app.root.addEventListener("pointerdown", (event) => box.contains(event.target) || event.target === button || fold(false));
  return button;
}

/** A few choices beside each other. */
function segments(app, name, label, options) {
  const radios = options.map(([value, says, title]) => {
    const radio = el("input", { type: "radio", name: app.id(name), value, onchange: () => app.store.set({ [name]: value }) });
    return [radio, el("label", { title }, radio, el("span", {}, says))];
  });
  const element = el("fieldset", { class: "hw-segments", "data-choice": name }, el("legend", {}, label), radios.map(([, one]) => one));
  return { element, update: (state) => radios.forEach(([radio]) => (radio.checked = radio.value === state[name])) };
}

/** One of a list; `options(scene)` may be none, and then there is nothing to choose. */
function pickOne(app, name, label, options) {
  const select = el("select", { "data-choice": name, onchange: () => app.store.set({ [name]: select.value }) });
  const element = el("label", { class: "hw-pick" }, el("span", {}, label), select);
  let built = null;
  function update(state) {
    const scene = app.scene();
    if (built !== scene) {
      built = scene;
      const found = options(scene);
      element.hidden = found.length < 2;
      select.replaceChildren(...found.map(([value, says]) => el("option", { value }, says)));
    }
    select.value = state[name];
  }
  return { element, update };
}

function themePick(theme) {
  const select = el("select", { "data-choice": "theme", onchange: () => theme.set(select.value) },
    THEMES.map((name) => el("option", { value: name }, name === "auto" ? "auto theme" : name)));
  select.value = theme.get();
  select.setAttribute("aria-label", "Theme");
  return el("span", { class: "hw-pick", title: "Light, dark, or as the system has it" }, select);
}

function linkButton(app, start) {
  const button = el("button", { type: "button", class: "hw-copy-link", onclick: async () => {
    const link = linkTo(app, start), done = await copyText(link);
    button.textContent = done ? "Copied" : "Copy link";
    if (!done) app.notice.show(`The browser does not let this page copy; the link is ${link}`);
    app.say(done ? "The link to this view is copied." : "");
    setTimeout(() => (button.textContent = "Copy link"), 1500);
  } }, "Copy link");
  return button;
}
