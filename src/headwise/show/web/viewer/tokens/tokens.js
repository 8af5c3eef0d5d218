// The text, token by token: point at one to see whom it looks at and who looks at it.

import { el } from "../draw/dom.js";
import { headOfScope } from "../data/units.js";
import { tokensFigure } from "./tokens_draw.js";
import { askedOf, lineOf, looksOf } from "./tokens_read.js";
import { piecesOf, positionsOnly, rulerStep, runsLeft } from "./tokens_text.js";

/** How much of its colour a weight gives: its root, so that small ones are seen. */
export const tint = (weight) => Math.sqrt(Math.min(1, Math.max(0, weight)));

const TOKEN_STEPS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };

export function tokensPanel(app) {
  const strips = el("div", { class: "hw-strips" }), line = el("p", { class: "hw-strip-line" });
  const element = el("section", { class: "hw-tokens", "aria-label": "Tokens" }, strips, line);
  let built = null, boxes = [], touched = [];

  function build(scene, unit) {
    built = { scene, unit };
    boxes = [];
    touched = [];
    strips.replaceChildren(...scene.sides.map((side, number) => stripOf(app, side, number, unit, boxes, scene.sides.length > 1)));
    for (const own of boxes) if (own.length) own[0].tabIndex = 0;
  }

  /** Which side of the head's stream a strip is: it may be both. */
  function roles(state) {
    const stream = app.streamOf(state.head, app.scene(state.scene));
    return { queries: stream.queries, keys: stream.keys, same: stream.queries === stream.keys };
  }

  function paint(state, found, head) {
    const { queries, keys, same } = roles(state), scene = app.scene(state.scene);
    const [rows, columns] = [queries, keys].map((number) => app.units(scene.sides[number], state.unit));
    const asked = askedOf(state, rows, columns), looks = asked ? looksOf(found, asked, same) : { gives: [], gets: [] };
    for (const box of touched) clearBox(box);
    touched = [];
    const touch = (box, name, value) => {
      if (box === undefined) return;
      box.style.setProperty(name, value);
      touched.push(box);
    };
    for (const [at, weight] of looks.gives) if (weight > 0.003) touch(boxes[keys][at], "--gives", tint(weight).toFixed(3));
    for (const [at, weight] of looks.gets) if (weight > 0.003) touch(boxes[queries][at], "--gets", tint(weight).toFixed(3));
    if (asked) markAsked(state, asked, boxes[asked.on === "queries" ? queries : keys][asked.at], asked.other === null ? undefined : boxes[keys][asked.other]);
    line.replaceChildren(...lineOf(app, state, head, { found, asked, looks, rows, columns, ways: app.keysApart(head, state.scene, state.unit) }));
  }

  function markAsked(state, asked, box, other) {
    box?.classList.add("hw-asked");
    box?.setAttribute("aria-pressed", String(state.pinned));
    other?.classList.add("hw-other");
    if (state.pinned && box && !strips.matches(":hover, :focus-within")) bringIntoView(box);
    touched.push(...[box, other].filter(Boolean));
  }

  /** Bring a box into view in a long text, without moving the page. */
  function bringIntoView(box) {
    const own = box.getBoundingClientRect(), all = strips.getBoundingClientRect();
    if (own.top < all.top || own.bottom > all.bottom) strips.scrollTop += own.top - all.top - all.height / 3;
  }

  async function update(state, changed) {
    const scene = app.scene(state.scene);
    if (built?.scene !== scene || built.unit !== state.unit) build(scene, state.unit);
    if (![...changed].some((name) => TOKEN_PAINTS.has(name))) return undefined;
    const head = headOfScope(app, state), now = app.cellsNow(head, state.scene, state);
    if (now !== undefined) return paint(state, now, head);
    const found = await app.cells(head, state.scene, state);
    const fresh = app.store.get();
    if (headOfScope(app, fresh) === head && fresh.scene === state.scene) paint(fresh, found.raw === undefined ? found : app.cellsNow(head) ?? found, head);
    return undefined;
  }

  /** What pointing at a box asks; null where the head does not look there. */
  function stateOf(box) {
    const state = app.store.get(), { queries, keys } = roles(state), number = Number(box.dataset.side);
    const token = app.units(app.scene().sides[number], state.unit)[Number(box.dataset.at)].first;
    if (number === queries) return { query: token, key: null };
    return number === keys ? { query: null, key: token } : null;
  }
  const boxOf = (event) => event.target.closest?.("[data-at]");
  const point = (event) => {
    const box = boxOf(event);
    if (box && !app.store.get().pinned) app.store.set(stateOf(box) ?? {});
  };
  strips.addEventListener("pointerover", point);
  strips.addEventListener("focusin", point);
  strips.addEventListener("pointerleave", () => !app.store.get().pinned && app.store.set({ query: null, key: null }));
  strips.addEventListener("click", (event) => boxOf(event) && pin(boxOf(event)));
  strips.addEventListener("keydown", (event) => {
    const box = boxOf(event);
    if (!box || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.key === "Enter" || event.key === " ") pin(box);
    else if (!walk(box, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  });
  function pin(box) {
    const state = app.store.get(), asked = stateOf(box);
    if (!asked) return;
    const again = state.pinned && state.query === asked.query && (state.key === asked.key || asked.key === null);
    app.store.set(again ? { pinned: false } : { ...asked, pinned: true });
  }
  /** Go to the token beside; true where the key means that. */
  function walk(box, key) {
    const own = boxes[Number(box.dataset.side)], at = Number(box.dataset.at), left = getComputedStyle(box).direction === "rtl" ? -1 : 1;
    const step = key === "ArrowLeft" || key === "ArrowRight" ? TOKEN_STEPS[key] * left : TOKEN_STEPS[key];
    const to = key === "Home" ? 0 : key === "End" ? own.length - 1 : step === undefined ? null : at + step;
    if (to === null) return false;
    const next = own[Math.min(Math.max(to, 0), own.length - 1)];
    box.tabIndex = -1;
    next.tabIndex = 0;
    if (app.store.get().pinned) app.store.set(stateOf(next) ?? {});
    next.focus();
    return true;
  }

  async function figures(state) {
    const head = headOfScope(app, state), found = await app.cells(head, state.scene, state);
    return [tokensFigure(app, state, head, found, 720)];
  }
  return { name: "tokens", title: "Tokens", element, update, figures };
}

const TOKEN_PAINTS = new Set(["head", "scene", "unit", "first", "separators", "scope", "query", "key", "pinned"]);

function clearBox(box) {
  box.style.removeProperty("--gives");
  box.style.removeProperty("--gets");
  box.classList.remove("hw-asked", "hw-other");
  box.removeAttribute("aria-pressed");
}

/** One text as a line of boxes; `boxes[number]` takes the element of each unit. */
function stripOf(app, side, number, unit, boxes, named) {
  const units = app.units(side, unit), own = (boxes[number] = new Array(units.length));
  const box = (at, text, kind, label) => (own[at] = el("span", {
    class: `hw-token${kind}`, role: "button", tabindex: -1, "data-at": at, "data-side": number, "aria-label": label,
  }, text));
  if (positionsOnly(side)) return stripNamed(side, number, named, rulerOf(side, units, box));
  const { pieces, after } = piecesOf(side, units);
  const parts = pieces.flatMap((piece) => [piece.before || null, pieceOf(piece, units, box)].flat());
  const strip = el("div", { class: "hw-strip", dir: side.rtl || runsLeft(side.text) ? "rtl" : "ltr", role: "group",
    "aria-label": side.name ? `Tokens of the ${side.name}` : "Tokens of the text" }, parts, after || null);
  return stripNamed(side, number, named, strip);
}

const stripNamed = (side, number, named, strip) => (named ? el("div", { class: "hw-named" }, el("h3", {}, side.name || `text ${number + 1}`), strip) : strip);

const RULER_WIDE = 5; // units of the page for a position, as in the stylesheet

/** Positions without a text as a ruler: a narrow box each, with the number of every so many-th. */
function rulerOf(side, units, box) {
  const step = rulerStep(units.length, RULER_WIDE);
  return el("div", { class: "hw-strip hw-ruler", role: "group", "aria-label": `Positions of the ${side.name || "input"}` }, units.map(({ label }, at) => {
    const made = box(at, "", " hw-position", `position ${label}`);
    if (at % step === 0) made.dataset.mark = label;
    made.title = label;
    return made;
  }));
}

/** A token; or a character whose bytes are several tokens, with a part under it for each. */
function pieceOf({ text, units: numbers, special }, units, box) {
  if (numbers.length === 1) {
    const broken = text.includes("\n"), blank = !text.trim();
    return box(numbers[0], text || units[numbers[0]].label, `${special ? " hw-special" : ""}${broken ? " hw-break" : ""}`, blank || special ? units[numbers[0]].label : null);
  }
  const parts = numbers.map((at) => box(at, "", " hw-byte", units[at].label)), { at, side } = parts.at(-1).dataset;
  const letters = text.trimStart(), space = text.slice(0, text.length - letters.length); // outside: it may stand at a word's other end
  return [space || null, el("span", { class: "hw-shared", "data-at": at, "data-side": side }, letters, el("span", { class: "hw-bytes" }, parts))];
}
