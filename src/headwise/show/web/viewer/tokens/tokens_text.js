// The text as it was written, cut where its tokens (or words) are. Positions of tokens count characters, not the
// 16-bit halves that JavaScript counts, and several tokens may share one character (its bytes).

/**
 * The pieces of a side in the order of its units: {text, before, units: [numbers], special}.
 *
 * `before` is text that no unit covers; units that share a character are one piece. A special token's text is its label.
 */
export function piecesOf(side, units) {
  const letters = Array.from(side.text), pieces = [];
  let end = 0;
  units.forEach((unit, at) => {
    const span = spanOf(side, unit), last = pieces.at(-1);
    if (span === null) pieces.push({ text: unit.label, before: "", units: [at], special: true, end });
    else if (last && !last.special && span[0] < last.end) {
      last.units.push(at);
      last.text += letters.slice(last.end, span[1]).join("");
      end = last.end = Math.max(last.end, span[1]);
    } else {
      const start = Math.max(span[0], end);
      pieces.push({ text: letters.slice(start, span[1]).join(""), before: letters.slice(end, start).join(""), units: [at], special: false, end: span[1] });
      end = Math.max(end, span[1]);
    }
  });
  return { pieces, after: letters.slice(end).join("") };
}

/** Whether a side has positions and no text (sound, a picture): its labels are numbers. */
export const positionsOnly = (side) => (side.positionsOnly ??= side.tokens.length > 0 && !side.text.trim() && side.tokens.every(([label]) => /^\d+$/.test(label)));

/** Every how many-th position has its number: room for numbers at so many units of the page for a position. */
export const rulerStep = (count, wide) => [1, 2, 5, 10, 20, 50, 100, 200, 500].find((step) => step * wide >= 9 + 7 * String(count).length) ?? 1000;

/** The characters of a unit, [start, end]; null where it has none in the text (a special token). */
function spanOf(side, { first, last }) {
  let start = Infinity, end = -1;
  for (let token = first; token < last; token++) {
    const [, from, to] = side.tokens[token];
    if (to <= from) continue;
    start = Math.min(start, from);
    end = Math.max(end, to);
  }
  return end < 0 ? null : [start, end];
}

/** Whether a text runs from right to left, by its first letter that has a direction. */
export const runsLeft = (text) => /^[^\p{L}]*[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}]/u.test(text);
