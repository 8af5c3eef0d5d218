// The picture of a cut for others: what is likely to come next before and after, or which outputs move, as bars.

import { isolated, plural, share, short } from "../draw/dom.js";
import { likelyNext, shownToken, signed } from "./cut_effects.js";
import { oneLine } from "../data/facts.js";
import { cutTo } from "../map/map_layout.js";
import { font } from "../draw/paint.js";

const CUT_WIDE = 560, CUT_NAMES = 150, CUT_NUMBER = 52, CUT_TOP = 46; // units of the page
const CUT_NAMED = 12; // heads that are named in a caption

/** The figure of a result of "cut" under a plan (head -> factor); `at`: the token whose next one is shown. */
export function cutFigure(scene, result, plan, at) {
  const moves = result.tokens[0]?.moved !== undefined, made = moves ? movedBars(result) : nextBars(result, at);
  const step = moves ? 20 : 34, height = CUT_TOP + step * made.rows.length + 4;
  return {
    name: "cut", title: made.title, width: CUT_WIDE, height,
    caption: [`${scene.model}; ${planWords(plan)}.`, `Text: ${isolated(oneLine(scene.text))}`, made.says],
    draw: (pen, colours) => drawCut(pen, colours, made, step),
  };
}

function nextBars({ tokens, loss }, at) {
  const one = tokens.find(({ position }) => position === at) ?? tokens.at(-1);
  const lost = loss === null ? "" : ` Loss ${short(loss.before)} before, ${short(loss.after)} after, ${signed(loss.change)} nats per token` +
    `${loss.change_error === null ? "" : ` ± ${short(loss.change_error)} (standard error over ${plural(loss.count, "token")})`}.`;
  return {
    title: `What comes after “${shownToken(one.label)}” (token ${one.position})`, bars: ["before", "after"], most: 1, said: share,
    rows: likelyNext(one).map(([token, values]) => [shownToken(token), values, one.actual?.[0] === token]),
    says: `Probabilities of the next token; underlined: what the text goes on with.${lost}`,
  };
}

function movedBars({ tokens, moved }) {
  const most = [...tokens].sort((a, b) => b.moved - a.moved).slice(0, 16);
  return {
    title: "Tokens whose output moves most", bars: ["moves by"], most: most[0]?.moved || 1, said: short,
    rows: most.map(({ label, moved: by }) => [shownToken(label), [by], false]),
    says: `How far each output moves, as a share of its length: ${short(moved.mean)} on average over ${plural(moved.count, "token")}.`,
  };
}

/** What a plan does to which heads. */
function planWords(plan) {
  const named = (heads) => `${heads.slice(0, CUT_NAMED).join(", ")}${heads.length > CUT_NAMED ? ` and ${heads.length - CUT_NAMED} more` : ""}`;
  const off = Object.keys(plan).filter((head) => plan[head] === 0), down = Object.keys(plan).filter((head) => plan[head] !== 0);
  const parts = [off.length ? `off: ${named(off)}` : "", down.length ? `turned down: ${named(down.map((head) => `${head} to ${plan[head]}`))}` : ""];
  return parts.filter(Boolean).join("; ") || "all heads on";
}

function drawCut(pen, colours, { title, bars, rows, most, said }, step) {
  const room = CUT_WIDE - CUT_NAMES - CUT_NUMBER - 8, tints = bars.length > 1 ? [colours.quiet, colours.in] : [colours.in];
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.fillStyle = colours.ink;
  pen.font = font(12, 600);
  pen.fillText(cutTo(title, CUT_WIDE - 8, font(12, 600)), 4, 10);
  pen.font = font(11);
  bars.forEach((name, i) => {
    pen.fillStyle = tints[i];
    pen.fillRect(CUT_NAMES + i * 80, 26, 12, 10);
    pen.fillStyle = colours.quiet;
    pen.fillText(name, CUT_NAMES + 17 + i * 80, 31.5);
  });
  rows.forEach(([label, values, actual], r) => {
    const y = CUT_TOP + r * step, middle = y + (step - 4) / 2, text = cutTo(label, CUT_NAMES - 14);
    pen.fillStyle = colours.ink;
    pen.textAlign = "right";
    pen.fillText(isolated(text), CUT_NAMES - 8, middle);
    if (actual) pen.fillRect(CUT_NAMES - 8 - pen.measureText(text).width, middle + 8, pen.measureText(text).width, 1);
    pen.textAlign = "left";
    values.forEach((value, i) => {
      pen.fillStyle = tints[i];
      pen.fillRect(CUT_NAMES, y + i * 15, Math.max(0.5, (value / most) * room), 12);
      pen.fillStyle = colours.ink;
      pen.fillText(said(value), CUT_NAMES + (value / most) * room + 6, y + i * 15 + 6.5);
    });
  });
}
