// The mean of several heads, worked out here where a page keeps all of their cells.

import { Cells } from "./cells.js";

/** The heads that a mean is of: those of a layer ("mean/18"), or of a whole stack ("mean/", "mean/encoder"). */
export function headsOfMean(scene, name) {
  const of = name.slice("mean/".length), ids = (layer) => layer.heads.map((head) => `${layer.id}.${head}`);
  const stack = scene.streams.find((stream) => stream.name === of);
  if (stack !== undefined) return stack.layers.flatMap(ids);
  return scene.streams.flatMap((stream) => stream.layers).filter((layer) => layer.id === of).flatMap(ids);
}

/** The mean of patterns of one shape, all of whose cells are kept. A cell that one head may see is seen by the mean. */
export function meanOfCells(several) {
  const [{ queries, keys }] = several, broken = brokenOf(several), sums = new Float32Array(queries * keys), seen = new Uint8Array(queries * keys);
  for (const cells of several) for (let q = 0; q < queries; q++) {
    for (let i = cells.start[q]; i < cells.start[q + 1]; i++) {
      sums[q * keys + cells.key[i]] += cells.weight[i];
      seen[q * keys + cells.key[i]] = 1;
    }
  }
  const start = new Uint32Array(queries + 1), key = new Uint16Array(seen.reduce((a, b) => a + b, 0)), weight = new Float32Array(key.length);
  for (let q = 0, at = 0; q < queries; q++) {
    for (let k = 0; k < keys && !broken?.[q]; k++) {
      if (!seen[q * keys + k]) continue;
      key[at] = k;
      weight[at++] = sums[q * keys + k] / several.length;
    }
    start[q + 1] = at;
  }
  const last = start[queries];
  return new Cells(queries, keys, start, key.subarray(0, last), weight.subarray(0, last), new Float32Array(queries), 0, new Float32Array(0), true, 0, { broken });
}

/** Rows that are no numbers in one of several; null where there are none. */
function brokenOf(several) {
  if (several.every(({ broken }) => broken === null)) return null;
  return Uint8Array.from({ length: several[0].queries }, (_, q) => (several.some((cells) => cells.isBroken(q)) ? 1 : 0));
}
