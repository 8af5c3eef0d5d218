// The shape of a grid of heads: which cells it has, where groups of shared keys and values begin, and ways over it.

/** Of a stream: its columns, the heads that begin a group, and its rows with the heads that are there. */
export function gridShape(stream) {
  return (stream.shape ??= {
    columns: Math.max(1, ...stream.layers.map((layer) => layer.total)),
    starts: groupStarts(stream.layers),
    rows: stream.layers.map((layer) => ({ id: layer.id, number: layer.number, heads: layer.heads.map((h) => headNumber(layer, h)) })),
  });
}

const headNumber = (layer, head) => (typeof head === "number" ? head : Number(String(head).split(".").pop()));

/** The heads at which another group of keys and values begins, where heads share any. */
function groupStarts(layers) {
  const found = new Set();
  for (const layer of layers) {
    if (new Set(layer.kv).size === layer.kv.length) continue;
    layer.heads.forEach((head, at) => {
      if (at > 0 && layer.kv[at] !== layer.kv[at - 1]) found.add(headNumber(layer, head));
    });
  }
  return found;
}

/** Whether a scene has something of this name to look at: a head, or the mean of a layer or stream. */
export function hasHead(scene, head) {
  if (Object.hasOwn(scene.heads, head)) return true;
  if (!head.startsWith("mean/")) return false;
  const of = head.slice(5);
  return scene.streams.some((stream) => stream.name === of || stream.layers.some((layer) => layer.id === of));
}

/** Whether a head is at zero in a scene: it looks where it looks, and adds nothing. */
export const isOff = (scene, head) => (scene.off ?? []).includes(head);

/** Where a head is: {stream, row, column}, numbers; of a mean the column is null. */
export function placeOf(scene, head) {
  const of = head.startsWith("mean/") ? head.slice(5) : head;
  for (let stream = 0; stream < scene.streams.length; stream++) {
    const { rows } = gridShape(scene.streams[stream]);
    for (let row = 0; row < rows.length; row++) {
      if (rows[row].id === of) return { stream, row, column: null };
      if (of.startsWith(`${rows[row].id}.`)) return { stream, row, column: Number(of.slice(rows[row].id.length + 1)) };
    }
  }
  return { stream: Math.max(0, scene.streams.findIndex((one) => one.name === of)), row: 0, column: null };
}

/** The head that a step leads to ("left", "right", "up", "down", "start", "end", "top", "bottom", "pageup", "pagedown");
 * the same where there is none. Heads that are missing are stepped over. */
export function headMoved(scene, head, step) {
  const at = placeOf(scene, head), { rows } = gridShape(scene.streams[at.stream]);
  const heads = rows[at.row]?.heads ?? [], column = at.column ?? -1;
  if (step === "right") return named(rows[at.row], heads.find((h) => h > column)) ?? across(scene, at, 1) ?? head;
  if (step === "left") return named(rows[at.row], heads.findLast((h) => h < column)) ?? across(scene, at, -1) ?? head;
  if (step === "start") return named(rows[at.row], heads[0]) ?? head;
  if (step === "end") return named(rows[at.row], heads.at(-1)) ?? head;
  const order = { up: [at.row - 1, -1], down: [at.row + 1, 1], pageup: [Math.max(0, at.row - 5), 1],
    pagedown: [Math.min(rows.length - 1, at.row + 5), -1], top: [0, 1], bottom: [rows.length - 1, -1] }[step];
  const aim = { top: 0, bottom: Infinity }[step] ?? Math.max(column, 0);
  return order === undefined ? head : nearestIn(rows, order, aim) ?? head;
}

const named = (row, head) => (head === undefined ? undefined : `${row.id}.${head}`);

/** The nearest head to a column in the first row that has any, from a row on. */
function nearestIn(rows, [from, by], column) {
  for (let row = from; row >= 0 && row < rows.length; row += by) {
    const { heads } = rows[row];
    if (!heads.length) continue;
    return named(rows[row], column === Infinity ? heads.at(-1) : heads.reduce((a, b) => (Math.abs(b - column) < Math.abs(a - column) ? b : a)));
  }
  return undefined;
}

/** From the edge of a grid into the one beside it. */
function across(scene, at, by) {
  const stream = scene.streams[at.stream + by];
  if (stream === undefined) return undefined;
  const { rows } = gridShape(stream), row = rows[Math.min(at.row, rows.length - 1)];
  return named(row, by > 0 ? row?.heads[0] : row?.heads.at(-1));
}
