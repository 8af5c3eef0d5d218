// The maps of two heads beside each other with one scale, and their difference: as canvases to point at, and as a figure.

import { isolated, share } from "../draw/dom.js";
import { apartWords, headWords, oneLine } from "../data/facts.js";
import { difference } from "./differences.js";
import { cutTo } from "../map/map_layout.js";
import { font, scaleTop, shade } from "../draw/paint.js";
import { shadeApart } from "../draw/paint_cells.js";
import { unitsOf } from "./pairs.js";
import { drawLegend, drawSmallMap, smallMapLayout } from "../draw/small_map.js";
import { seenUnits } from "../data/units.js";

const COMPARE_TITLE = 20, COMPARE_FOOT = 34, COMPARE_GAP = 18, COMPARE_LEAST = 215, COMPARE_MOST = 520; // units of the page

/** The maps to draw: [{letter, title, cells, rows, columns, top, diverging, seen}] of what app.cells gives of A and B. */
export function comparedMaps(app, state, pair, found, alike) {
  const top = scaleTop(Math.max(...found.map(({ cells }) => cells.largest)));
  const maps = [pair.a, pair.b].map((one, i) => {
    const [rows, columns] = unitsOf(app, one, state.unit);
    const seen = seenUnits(app, one.head, one.at, state.unit), hidden = hiddenColumns(app, state, one);
    return { letter: "AB"[i], title: compareTitle(app, pair, i), cells: found[i].cells, rows, columns, top, diverging: false, seen, hidden };
  });
  if (alike !== "units") return maps;
  const cells = difference(found[0].cells, found[1].cells);
  const furthest = cells.weight.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  return [...maps, { ...maps[0], letter: "", title: "B − A", cells, top: scaleTop(furthest), diverging: true }];
}

/** The columns that are not shown. */
function hiddenColumns(app, state, { head, at }) {
  const apart = app.keysApart(head, at, state.unit);
  return [...(state.first === "shown" ? [] : apart.first), ...(state.separators === "shown" ? [] : apart.separator)];
}

/** What A (0) or B (1) is, said as far as they differ. */
function compareTitle(app, { a, b }, i) {
  const one = i ? b : a, scenes = [a, b].map(({ at }) => app.scene(at));
  const head = one.head.startsWith("mean/") ? headWords(app, one.head, scenes[i]) : one.head;
  if (a.at === b.at) return `${"AB"[i]}: ${head}`;
  return `${"AB"[i]}: ${head}, ${isolated(oneLine(scenes[i].title, 40))}`;
}

/** How wide and high each of some maps is where they share a width. */
export function compareLayouts(maps, width, ruler) {
  const across = [3, 2, 1].find((n) => n <= maps.length && (width - COMPARE_GAP * (n - 1)) / n >= (n === 1 ? 0 : COMPARE_LEAST));
  const each = Math.max(200, Math.min(COMPARE_MOST, Math.floor((width - COMPARE_GAP * (across - 1)) / across)));
  return maps.map(({ rows, columns }) => smallMapLayout(rows, columns, each, ruler));
}

/** Draw one map with its title above and its scale under it; returns how many cells a dot stands for. */
export function drawCompared(pen, map, layout, colours, { x = 0, y = 0 } = {}) {
  pen.font = font(12, 600);
  pen.fillStyle = colours.ink;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.fillText(cutTo(map.title, layout.width - 4, font(12, 600)), x + 2, y + COMPARE_TITLE / 2);
  const dots = drawSmallMap(pen, map.cells, map.rows, map.columns, layout,
    { x, y: y + COMPARE_TITLE, colours, top: map.top, diverging: map.diverging, seen: map.seen, hidden: map.hidden });
  const shadeAt = map.diverging ? (part) => shadeApart(2 * part - 1, colours.dark) : (part) => shade(part, colours.dark);
  const [low, high] = map.diverging ? [`A ${share(map.top)} more`, `B ${share(map.top)} more`] : ["0", share(map.top)];
  drawLegend(pen, { x: x + layout.left, y: y + COMPARE_TITLE + layout.height + 6, width: Math.min(layout.wide, 240), shadeAt, low, high, colours });
  return dots;
}

export const comparedHeight = (layout) => COMPARE_TITLE + layout.height + COMPARE_FOOT;

/** All of it as one picture for others. */
export function compareFigure(app, state, pair, maps, numbers, width = 860) {
  const layouts = compareLayouts(maps, width, document.createElement("canvas").getContext("2d"));
  const total = layouts.reduce((sum, layout) => sum + layout.width, 0) + COMPARE_GAP * (maps.length - 1);
  return {
    name: "compare", title: `${compareTitle(app, pair, 0)}; ${compareTitle(app, pair, 1)}`, width: total,
    height: Math.max(...layouts.map(comparedHeight)), caption: compareCaption(app, state, pair, maps, numbers),
    draw(pen, colours) {
      let x = 0;
      maps.forEach((map, i) => {
        drawCompared(pen, map, layouts[i], colours, { x });
        x += layouts[i].width + COMPARE_GAP;
      });
    },
  };
}

function compareCaption(app, state, { a, b }, maps, numbers) {
  const facts = [a, b].map(({ head, at }, i) => {
    const scene = app.scene(at), [rows, columns] = app.sidesOf(head, scene);
    const at_ = columns === rows ? "" : `, looking at ${isolated(oneLine(columns.text))}`;
    return `${"AB"[i]}: ${scene.model}, ${headWords(app, head, scene)}${scene.note ? `, ${scene.note}` : ""}; text: ${isolated(oneLine(rows.text))}${at_}.`;
  });
  const least = Math.max(app.scene(a.at).least, app.scene(b.at).least);
  return [...facts, [
    state.unit === "words" ? "Words: to a word the sum over its tokens, from a word their mean." : "",
    "Rows look at columns.", maps[0].seen ? "Hatched: may not be seen." : "", maps[0].hidden.length ? "Grey: not shown." : "", `One scale for A and B, darkest ${share(maps[0].top)}.`,
    maps.length > 2 ? `B − A: orange where A looks more, purple where B does.` : "",
    ...apartWords(state).map((words) => `${words[0].toUpperCase()}${words.slice(1)}.`),
    least > 0 ? `Cells under ${share(least)} are pooled; in a difference they count as the mean of their region.` : "", numbers,
  ].filter(Boolean).join(" ")];
}
