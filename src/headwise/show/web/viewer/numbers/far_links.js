// The strongest links of a head that tell something: far ones, to words, of what is shown.

const FAR = 3; // least distance of a link, in tokens or words (1 in a text too short for it)
const LINKS_MOST = 3;

/** Whether weights stand as the head has them, token by token. */
export const isPlain = ({ unit, first, separators }) => unit === "tokens" && first !== "renormalised" && separators !== "renormalised";

/**
 * The strongest cells at least FAR units apart whose key is none of those that can be set apart, nor the first:
 * [[query, key, weight], ...] in units, strongest first, of the cells that are shown.
 */
export function farLinks(cells, keysApart, most = LINKS_MOST) {
  const set = new Set([0, ...Object.values(keysApart).flat()]), far = cells.keys > FAR + 1 ? FAR : 1, found = [];
  for (let q = 0; q < cells.queries; q++) {
    for (let i = cells.start[q]; i < cells.start[q + 1]; i++) {
      const k = cells.key[i], weight = cells.weight[i];
      if (Math.abs(q - k) < far || !(weight > (found.length < most ? 0 : found.at(-1)[2])) || set.has(k)) continue;
      found.push([q, k, weight]);
      found.sort((a, b) => b[2] - a[2]);
      found.splice(most);
    }
  }
  return found;
}

/** What the links are of, where it is not simply the head's tokens: ", by words, the first token renormalised". */
export function linksSaid({ unit, first, separators }) {
  const ways = [["first token", first], ["separators", separators]].filter(([, way]) => way === "renormalised").map(([what, way]) => `${what} ${way}`);
  return [unit === "words" ? "by words" : "", ...ways].filter(Boolean).map((words) => `, ${words}`).join("");
}
