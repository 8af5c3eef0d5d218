// The search field: a combobox over heads, kinds, views and words.

import { el } from "../draw/dom.js";
import { foundBy } from "./finding.js";
import { giveBack } from "./leaving.js";

export function searchPanel(app, tabs) {
  const list = el("ul", { role: "listbox", id: app.id("found"), class: "hw-found", "aria-label": "Found", hidden: true });
  const field = el("input", {
    type: "text", role: "combobox", class: "hw-search-field", placeholder: "Find a head, kind or word", spellcheck: "false", autocomplete: "off",
    "aria-label": "Find a head, a kind of head, a view or a word", "aria-expanded": "false", "aria-controls": app.id("found"), "aria-autocomplete": "list",
  });
  const search = { app, list, field, found: [], at: -1, before: null };
  field.addEventListener("input", () => searchFor(search, foundBy(app, field.value, tabs())));
  field.addEventListener("focus", (event) => (search.before = event.relatedTarget));
  field.addEventListener("focus", () => field.value && searchFor(search, foundBy(app, field.value, tabs())));
  field.addEventListener("blur", () => showFound(search, []));
  field.addEventListener("keydown", (event) => searchKey(search, event));
  list.addEventListener("pointerdown", (event) => {
    event.preventDefault(); // the field keeps the focus
    const at = [...list.children].indexOf(event.target.closest("[role=option]"));
    if (at >= 0 && search.found.length) takeFound(search, at);
  });
  const element = el("div", { class: "hw-search", role: "search" }, field, el("kbd", { "aria-hidden": "true" }, "/"), list);
  return { name: "search", title: "Search", element, update() {}, focus: () => (field.focus(), field.select()) };
}

function searchFor(search, found) {
  showFound(search, found);
  if (found.length || !search.field.value.trim()) return;
  search.list.replaceChildren(el("li", { class: "hw-none", role: "option", "aria-disabled": "true" }, "Nothing here has this in its name."));
  search.list.hidden = false;
}

function showFound(search, found) {
  const { app, list, field } = search;
  Object.assign(search, { found, at: -1 });
  list.replaceChildren(...found.map((one, at) => el("li", { role: "option", id: app.id(`found-${at}`), "aria-selected": "false" },
    el("b", { dir: "auto" }, one.title), ` `, el("span", {}, one.says))));
  list.hidden = !found.length;
  field.setAttribute("aria-expanded", String(found.length > 0));
  field.removeAttribute("aria-activedescendant");
}

function searchKey(search, event) {
  const { found, at } = search, step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.isComposing) return; // a word is being written (Chinese, Japanese): its Enter is not ours
  if (step !== undefined && found.length) pointAt(search, (at + step + found.length + (at < 0 && step < 0 ? 1 : 0)) % found.length);
  else if (event.key === "Enter" && found.length) takeFound(search, Math.max(at, 0));
  else if (event.key === "Escape") leave(search);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function pointAt(search, at) {
  const { list, field } = search;
  search.at = at;
  [...list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === at)));
  field.setAttribute("aria-activedescendant", list.children[at].id);
  list.children[at].scrollIntoView({ block: "nearest" });
}

function takeFound(search, at) {
  const { title, says, patch } = search.found[at];
  search.app.store.set(patch);
  search.app.say(`${title}, ${says}`);
  leave(search);
}

function leave(search) {
  search.field.value = "";
  showFound(search, []);
  giveBack(search.app, search.before);
}
