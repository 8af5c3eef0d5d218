// Heads turned off, live: what the model then predicts, how its loss moves, and a plan to cut them for good.

import { el, plural } from "../draw/dom.js";
import { makePast } from "./plan.js";
import { modelAsked, asLine, lookedAt } from "../live/live.js";
import { cutGrid } from "./cut_grid.js";
import { showEffects } from "./cut_effects.js";
import { cutFigure } from "./cut_figure.js";
import { planPart } from "./cut_plan.js";

const CUT_REST = 120; // milliseconds without a further change before the server is asked
const FACTORS = [[1, "On"], [0.5, "Half"], [0, "Off"]];

export function cutPanel(app) {
  const cut = { app, pasts: new Map(), waiting: null, turn: 0, known: null, result: null };
  cut.grid = cutGrid(app, (heads) => changePlan(cut, heads), () => planOf(cut));
  cut.effects = el("div", { class: "hw-cut-effects", "aria-live": "off" });
  cut.error = el("p", { class: "hw-live-error", role: "alert" });
  cut.plan = planPart(app, (heads) => changePlan(cut, heads), () => planOf(cut));
  const does = doesOf(cut);
  const element = el("section", { class: "hw-cut", "aria-label": "Cut" }, does.element,
    el("div", { class: "hw-cut-body" }, el("div", { class: "hw-cut-left" }, cut.grid.element), el("div", { class: "hw-cut-right" }, cut.error, cut.effects)),
    cut.plan.element);
  cut.does = does;
  return { name: "cut", title: "Cut", element, offered: () => Boolean(app.index.live?.cut), keys: keysOfCut(cut), update: (state, changed) => updateCut(cut, state, changed),
    figures: (state) => figuresOfCut(cut, state) };
}

/** What is shown as a picture, once the answer to what is shown is there. */
function figuresOfCut(cut, state) {
  if (cut.result === null || cut.known?.key !== askedKey(cut, state)) return [];
  return [cutFigure(cut.app.scene(), cut.result, planOf(cut), tokenOf(cut, state))];
}

/** The past of the plans of the model that is shown. */
function pastOf(cut) {
  const name = modelAsked(cut.app.scene());
  if (!cut.pasts.has(name)) cut.pasts.set(name, makePast());
  return cut.pasts.get(name);
}

const planOf = (cut) => pastOf(cut).now();

function changePlan(cut, heads) {
  pastOf(cut).set(heads);
  changed(cut);
}

/** After every step of a plan: show it, say it, and ask what it does. */
function changed(cut) {
  showPlan(cut);
  cut.app.say(saidOf(planOf(cut)));
  askSoon(cut, CUT_REST);
}

function showPlan(cut) {
  const { head } = cut.app.store.get();
  cut.grid.update(head, planOf(cut));
  cut.does.update(head);
  cut.plan.update();
}

/** A plan in a few words. */
function saidOf(heads) {
  const off = Object.values(heads).filter((factor) => factor === 0).length, down = Object.keys(heads).length - off;
  if (!off && !down) return "All heads are on";
  return [off ? `${plural(off, "head")} off` : "", down ? `${plural(down, "head")} turned down` : ""].filter(Boolean).join(", ");
}

function updateCut(cut, state, changes) {
  if (cut.app.scene() === undefined) return;
  cut.grid.build(cut.app.scene(), changes.has("theme") || changes.has("colour"));
  showPlan(cut);
  const key = askedKey(cut, state);
  if (cut.known?.key === key) return;
  if (cut.known?.base === baseKey(cut, state) && hasToken(cut, tokenOf(cut, state))) {
    cut.known = { key, base: cut.known.base };
    drawEffects(cut);
  } else askSoon(cut, changes.has("scene") || cut.known === null ? 0 : CUT_REST);
}

const baseKey = (cut, state) => JSON.stringify([state.scene, planOf(cut)]);
const askedKey = (cut, state) => JSON.stringify([state.scene, planOf(cut), tokenOf(cut, state)]);
const hasToken = (cut, at) => cut.result !== null && (at === null || !cut.result.divergences || cut.result.tokens.some((one) => one.position === at));

/** The token whose next one is shown: the pinned one of the text the model goes on with, else null for the last. */
function tokenOf(cut, state) {
  const scene = cut.app.scene(), streams = scene.streams;
  const goesOn = (streams.find((one) => one.name === "decoder") ?? streams[0]).queries;
  return state.pinned && state.query !== null && cut.app.streamOf(state.head).queries === goesOn ? state.query : null;
}

function askSoon(cut, rest) {
  clearTimeout(cut.waiting);
  cut.turn += 1;
  cut.waiting = setTimeout(() => askNow(cut), rest);
  cut.effects.setAttribute("aria-busy", "true");
}

/** Ask what the plan does; an answer that is no longer wanted is never shown. */
async function askNow(cut) {
  const state = cut.app.store.get(), turn = cut.turn, at = tokenOf(cut, state);
  const key = askedKey(cut, state), base = baseKey(cut, state);
  try {
    const result = await cut.app.source.ask("cut", { scene: state.scene, heads: planOf(cut), at });
    if (turn !== cut.turn) return;
    Object.assign(cut, { result, known: { key, base } });
    cut.error.textContent = "";
    drawEffects(cut);
  } catch (error) {
    if (turn !== cut.turn || error.name === "AbortError") return;
    cut.error.textContent = asLine(error);
    cut.effects.removeAttribute("aria-busy");
  }
}

function drawEffects(cut) {
  const { app } = cut, said = showEffects(cut.effects, app, cut.result, tokenOf(cut, app.store.get()), Object.keys(planOf(cut)).length > 0);
  cut.effects.removeAttribute("aria-busy");
  if (said && cut.said !== said) app.say(said);
  cut.said = said;
}

/** The chosen head turned on, half or off, and what is done to all. */
function doesOf(cut) {
  const name = el("b"), said = el("span", { class: "hw-quiet" });
  const head = () => cut.app.store.get().head;
  const set = (factor) => changePlan(cut, { ...planOf(cut), [head()]: factor });
  const choices = FACTORS.map(([factor, title]) => el("button", { type: "button", "data-factor": String(factor), onclick: () => set(factor) }, title));
  const only = el("button", { type: "button", onclick: () => changePlan(cut, { [head()]: 0 }) }, "Only this head off");
  const undo = el("button", { type: "button", title: "Ctrl+Z", onclick: () => step(cut, "undo") }, "Undo");
  const redo = el("button", { type: "button", title: "Ctrl+Shift+Z", onclick: () => step(cut, "redo") }, "Redo");
  const all = el("button", { type: "button", onclick: () => changePlan(cut, {}) }, "All on");
  const look = el("button", { type: "button", onclick: () => lookWithout(cut, look) }, "Look with these heads off");
  const element = el("div", { class: "hw-cut-does" }, el("span", { class: "hw-cut-head", role: "group", "aria-label": "The chosen head" }, name, choices, only),
    el("span", { class: "hw-cut-steps", role: "group", "aria-label": "The plan" }, undo, redo, all, look), said);
  return { element, update: (id) => {
    const plan = planOf(cut), known = id in cut.app.scene().heads, past = pastOf(cut);
    name.textContent = known ? id : "a mean";
    for (const one of [...choices, only]) one.disabled = !known;
    for (const one of choices) one.setAttribute("aria-pressed", String(known && (plan[id] ?? 1) === Number(one.dataset.factor)));
    undo.disabled = !past.canUndo();
    redo.disabled = !past.canRedo();
    all.disabled = look.disabled = !Object.keys(plan).length;
    said.textContent = saidOf(plan);
  } };
}

function step(cut, which) {
  if (pastOf(cut)[which]()) changed(cut);
}

/** The text with the plan in force, compared with this one: A as it is, B without these heads. */
async function lookWithout(cut, button) {
  const { app } = cut, scene = app.scene(), from = app.store.get().scene;
  button.disabled = true;
  try {
    const body = { model: modelAsked(scene), text: scene.text, without: planOf(cut), ...(scene.target ? { target: scene.target } : {}) };
    const at = await lookedAt(app, body, () => {});
    const { head } = app.store.get();
    app.store.set({ scene: from, head, withScene: at, withHead: head, tab: "compare" });
  } catch (error) {
    if (error.name !== "AbortError") cut.error.textContent = asLine(error);
  } finally {
    button.disabled = false;
  }
}

function keysOfCut(cut) {
  const toggle = () => {
    const { head } = cut.app.store.get(), plan = planOf(cut);
    if (head in cut.app.scene().heads) changePlan(cut, { ...plan, [head]: (plan[head] ?? 1) === 0 ? 1 : 0 });
  };
  return [
    ["x", "turn the chosen head off, or on again", toggle],
    ["ctrl+z", "undo", () => step(cut, "undo")],
    ["ctrl+Z", "redo (also Ctrl+Y)", () => step(cut, "redo")],
    ["ctrl+y", "redo", () => step(cut, "redo")],
  ];
}
