// The bar of controls: the unit, what is set apart, what the grid is coloured by, and the look of the page.

import { el } from "./dom.js";
import { copyText, linkTo } from "./address.js";
import { THEMES } from "./theme.js";

const WAYS = [["shown", "shown"], ["hidden", "hidden"], ["renormalised", "renormalised"]];

/** `theme` is theme.js's, `help` opens the help, `start` is what an empty address means. */
export function barPanel(app, { theme, help, start }) {
  const choices = [
    segments(app, "unit", "Unit", [["tokens", "tokens"], ["words", "words"]]),
    segments(app, "scope", "Pointing asks", [["head", "this head"], ["layer", "its layer"], ["all", "all heads"]]),
    pickOne(app, "first", "First token", () => WAYS),
    pickOne(app, "separators", "Separators", (scene) => (scene.sides.some((side) => side.separators.length) ? WAYS : [])),
    pickOne(app, "colour", "Colour heads by", (scene) => (scene.colourings ?? []).map((one) => [one.name, one.title])),
  ];
  const ends = el("div", { class: "hw-controls-end" }, themePick(theme), app.address ? linkButton(app, start) : null,
    el("button", { type: "button", class: "hw-help-open", "aria-label": "Help: what is shown, and all keys", onclick: help }, "?"));
  const element = el("div", { class: "hw-controls", role: "group", "aria-label": "How it is shown" }, choices.map((one) => one.element), ends);
  const update = (state) => choices.forEach((one) => one.update(state));
  return { name: "bar", title: "Controls", element, ends, update };
}

/** A few choices beside each other. */
function segments(app, name, label, options) {
  const radios = options.map(([value, says]) => {
    const radio = el("input", { type: "radio", name: app.id(name), value, onchange: () => app.store.set({ [name]: value }) });
    return [radio, el("label", {}, radio, el("span", {}, says))];
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
    THEMES.map((name) => el("option", { value: name }, name)));
  select.value = theme.get();
  return el("label", { class: "hw-pick" }, el("span", {}, "Theme"), select);
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
