// What turning heads down does to a text: its loss, the next token at one place, and where predictions change most.

import { el, isolated, plural, share, short } from "../draw/dom.js";

const EFFECT_LINES = 8; // lines of a table

/** Fill `element` with a result of "cut"; returns what to say of it. `at`: the token whose next one is shown. */
export function showEffects(element, app, result, at, some) {
  if (result.tokens[0]?.moved !== undefined) {
    element.replaceChildren(...movedParts(app, result));
    return some ? `Outputs move by ${short(result.moved.mean)}` : "";
  }
  const shown = result.tokens.find((one) => one.position === at) ?? result.tokens.at(-1);
  element.replaceChildren(lossLine(result.loss), nextTable(shown), some ? changesTable(app, result.tokens) : startHint());
  return some && result.loss !== null ? `Loss changes by ${signed(result.loss.change)} nats per token` : "";
}

export const signed = (x) => (x === null ? "–" : `${x < 0 ? "−" : "+"}${short(Math.abs(x))}`);
const startHint = () => el("p", { class: "hw-quiet" }, "Turn a head off to see which predictions change.");
export const shownToken = (token) => isolated(token.trim() === "" ? JSON.stringify(token).slice(1, -1) : token.replaceAll("\n", "⏎"));

function lossLine(loss) {
  if (loss === null) return el("p", { class: "hw-cut-loss" }, "One token has no next one, so there is no loss.");
  const error = loss.change_error === null ? "" : ` ± ${short(loss.change_error)}`;
  return el("p", { class: "hw-cut-loss", title: "Mean over the tokens of this text; ± is the standard error of the change over them" },
    "Loss ", el("span", { class: "hw-number" }, short(loss.before)), " → ", el("span", { class: "hw-number" }, short(loss.after)), " nats per token: ",
    el("b", { "data-change": String(loss.change) }, signed(loss.change)), error, el("span", { class: "hw-quiet" }, ` (standard error over ${plural(loss.count, "token")})`));
}

/** The likeliest to come after one token, before and after: [[token, [probability before, after]], ...]. */
export function likelyNext(one) {
  const likely = new Map();
  for (const [token, before, after] of [...one.before, ...one.after, ...(one.actual ? [one.actual] : [])]) likely.set(token, [before, after]);
  return [...likely].sort(([, a], [, b]) => Math.max(...b) - Math.max(...a)).slice(0, EFFECT_LINES);
}

function nextTable(one) {
  const rows = likelyNext(one);
  return el("table", { class: "hw-cut-next" }, el("caption", {}, "After ", el("b", { dir: "auto" }, shownToken(one.label)), ` (token ${one.position}) comes next`),
    el("thead", {}, el("tr", {}, ["", "before", "after", "change"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, rows.map(([token, [before, after]]) => el("tr", { "data-token": token, class: one.actual?.[0] === token ? "hw-actual" : null },
      el("th", { scope: "row", dir: "auto", title: one.actual?.[0] === token ? "what the text goes on with" : null }, shownToken(token)),
      barCell(before, "hw-before"), barCell(after, "hw-after"), el("td", {}, shareMoved(after - before))))));
}

const shareMoved = (x) => (Math.abs(x) < 1e-3 ? "0" : `${x < 0 ? "−" : "+"}${share(Math.abs(x))}`);

function barCell(value, kind) {
  const cell = el("td", { class: `hw-cut-bar ${kind}`, "data-value": String(value) }, el("span", {}, share(value)));
  cell.style.setProperty("--part", `${100 * value}%`);
  return cell;
}

/** The tokens whose prediction changes most; a click pins one. */
function changesTable(app, tokens) {
  const most = [...tokens].filter(tellsChange).sort((a, b) => b.divergence - a.divergence).slice(0, EFFECT_LINES);
  if (!most.length) return el("p", { class: "hw-quiet" }, "No prediction changes.");
  return el("table", { class: "hw-cut-most" }, el("caption", {}, "Predictions that change most"),
    el("thead", {}, el("tr", {}, ["after", "goes on with", "likeliest", "KL, nats"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, most.map((one) => el("tr", {},
      el("th", { scope: "row", dir: "auto" }, tokenButton(app, one)),
      el("td", { dir: "auto" }, actualParts(one)),
      el("td", { dir: "auto" }, likeliest(one)), el("td", {}, short(one.divergence))))));
}

/** Whether a row has a change to show: another token is likeliest, or the one that follows is not rare in both. */
const tellsChange = (one) => one.divergence > 0 && (one.before[0][0] !== one.after[0][0] || !rareInBoth(one));
const rareInBoth = ({ actual }) => actual !== null && share(actual[1]).startsWith("<") && share(actual[2]).startsWith("<");

/** The token that the text goes on with, and its probability before and after. */
function actualParts(one) {
  if (!one.actual) return "–";
  const [token, before, after] = one.actual;
  return [shownToken(token), " ", el("span", { class: "hw-quiet hw-number" }, rareInBoth(one) ? "rare in both" : `${share(before)} → ${share(after)}`)];
}

function likeliest(one) {
  const [before] = one.before[0], [after] = one.after[0];
  return before === after ? shownToken(before) : `${shownToken(before)} → ${shownToken(after)}`;
}

const tokenButton = (app, one) => el("button", { type: "button", class: "hw-link", title: "Pin this token",
  onclick: () => app.store.set({ query: one.position, key: null, pinned: true }) }, el("span", { class: "hw-quiet" }, `token ${one.position},`), " ", shownToken(one.label));

/** Of a model that predicts no next token: how far its outputs move. */
function movedParts(app, { moved, tokens }) {
  const most = [...tokens].sort((a, b) => b.moved - a.moved).slice(0, 2 * EFFECT_LINES), top = Math.max(most[0]?.moved ?? 0, 1e-9);
  const rows = most.map((one) => {
    const cell = el("td", { class: "hw-cut-bar hw-after", "data-value": String(one.moved) }, el("span", {}, short(one.moved)));
    cell.style.setProperty("--part", `${(100 * one.moved) / top}%`);
    return el("tr", {}, el("th", { scope: "row", dir: "auto" }, tokenButton(app, one)), cell);
  });
  return [
    el("p", { class: "hw-cut-loss" }, "This model predicts no next token. Its outputs move by ", el("b", { "data-change": String(moved.mean) }, short(moved.mean)),
      moved.error === null ? "" : ` ± ${short(moved.error)}`, el("span", { class: "hw-quiet" }, ` of their length (mean over ${plural(moved.count, "token")}, standard error)`)),
    el("table", { class: "hw-cut-most" }, el("caption", {}, "Tokens whose output moves most"), el("tbody", {}, rows)),
  ];
}
