"use strict";
// Who can influence whom: draws the data of a reach, lights the paths of what is pointed at. No network, no library.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const unpack = (rows) => rows.map((runs) => {
  const row = [];
  for (let i = 0; i < runs.length; i += 2) for (let n = runs[i + 1]; n > 0; n--) row.push(runs[i]);
  return row;
});
const stack = (packed) => {
  const masks = packed.masks.map(unpack);
  return { first: unpack(packed.first), seen: packed.turns.map((turn) => masks[turn]) };
};
const own = stack(data.own);
const across = data.across && stack(data.across);
const encoder = data.encoder && stack(data.encoder);
const { length, layers, start } = data;
const sources = data.across ? data.source_length : 0;
const state = { layer: layers, q: length - 1, k: null, memory: false, kept: false };

// ---- what reaches what -------------------------------------------------------------------------------------------
const range = (n, from = 0) => Array.from({ length: Math.max(0, n - from) }, (_, i) => i + from);
const open = (layer, at = state.layer) => layer >= 0 && layer <= at;
const nearest = (found, to) => found.reduce((a, b) => (a < 0 || Math.abs(b - to) < Math.abs(a - to) ? b : a), -1);
const kept = new Map(); // what depends on the layer alone, and costs more than a look
const once = (key, make) => kept.get(key) ?? (kept.set(key, make()), kept.get(key));
const contexts = (first, at = state.layer) => once(`${first === own.first} ${at}`, () =>
  first.map((row) => row.reduce((n, layer) => n + open(layer, at), 0)));
const context = (first, q) => contexts(first)[q];
const back = (q) => Math.max(0, q - own.first[q].findIndex((layer) => open(layer)));
const onwards = (k) => own.first.filter((row, q) => q >= start && open(row[k])).length;

function path({ first, seen }, q, k, memory) { // the steps of one of the shortest ways, the first first; null: no way
  let layer = first[q][k];
  if (layer < 0) return null;
  const hops = [];
  while (layer > 0) {
    if (memory) {
      const via = nearest(range(sources).filter((e) => across.seen[layer - 1][q][e] && encoder.first[e][k] >= 0), k);
      if (via >= 0) {
        const within = path(encoder, via, k, false).map((hop) => ({ ...hop, stream: "encoder" }));
        return [...within, { layer, q, k: via, stream: "cross" }, ...hops.reverse()];
      }
    }
    const at = layer, row = seen[layer - 1][q];
    const via = nearest(range(length).filter((j) => row[j] && first[j] && first[j][k] >= 0 && first[j][k] < at), q);
    hops.push({ layer, q, k: via, stream: "self" });
    q = via;
    layer = first[via][k];
  }
  return hops.reverse();
}
const chosen = () => (state.k === null ? null : path(state.memory ? { ...own, first: across.first } : own, state.q, state.k, state.memory));

function cone(q) { // for each layer, as 1, who carries something to q's output
  const sets = [];
  sets[state.layer] = Uint8Array.from({ length }, (_, j) => Number(j === q));
  for (let layer = state.layer; layer > 0; layer--) {
    const now = sets[layer], before = Uint8Array.from(now);
    for (let i = 0; i < length; i++) {
      if (!now[i]) continue;
      const row = own.seen[layer - 1][i];
      for (let j = 0; j < length; j++) if (row[j]) before[j] = 1;
    }
    sets[layer - 1] = before;
  }
  return sets;
}

// ---- words -------------------------------------------------------------------------------------------------------
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
function says() {
  const { q, k, memory, layer } = state;
  if (k === null) {
    const rest = memory || !across ? "" : `, and of ${plural(context(across.first, q), "position")} of the encoder`;
    return `Position ${q}: after ${layer} of ${plural(layers, "layer")} its output can hold the input of ` +
      `${plural(context(own.first, q), "position")} (the furthest ${back(q)} before it)${rest}; ` +
      `its own input can be in the output of ${plural(onwards(q), "position")}.`;
  }
  const from = memory ? `Position ${k} of the encoder` : `Position ${k}`;
  const hops = chosen();
  if (hops === null) return `${from} never reaches position ${q}: no path opens in ${plural(layers, "layer")}.`;
  if (!hops.length) return `Position ${q} holds its own input from the start.`;
  const where = { self: "layer", cross: "across in layer", encoder: "encoder layer" };
  const way = hops.map((hop) => ` → ${hop.q} (${where[hop.stream]} ${hop.layer})`).join("");
  const opens = (memory ? across : own).first[q][k];
  const yet = opens > layer ? `; after ${plural(layer, "layer")} not yet` : "";
  return `${from} reaches position ${q} from layer ${opens} on${yet}. A path: ${k}${way}.`;
}

// ---- drawing -----------------------------------------------------------------------------------------------------
let colours = {};
function readColours() {
  const css = getComputedStyle(document.documentElement);
  for (const name of ["paper", "ink", "quiet", "line", "near", "far", "later", "never", "in", "out", "path", "mark"])
    colours[name] = css.getPropertyValue(`--${name}`).trim();
}
const rgb = (hex) => (hex.length < 6 ? [1, 2, 3].map((i) => parseInt(hex[i] + hex[i], 16)) : [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
const shade = (layer) => rgb(colours.near).map((c, i) => Math.round(c + ((rgb(colours.far)[i] - c) * layer) / Math.max(layers, 1)));
const css = (c) => `rgb(${c.join(",")})`;
const inkOn = ([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#191919" : "#ffffff");
const room = () => Math.min(document.documentElement.clientWidth - 40, 720);
const tick = (n, cell) => [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((step) => step * cell >= 9 + 7 * String(n - 1).length) || 2000;

function paper(canvas, width, height) {
  const dots = width * height > 4e6 ? 1 : window.devicePixelRatio || 1;
  canvas.width = Math.round(width * dots);
  canvas.height = Math.round(height * dots);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(dots, 0, 0, dots, 0, 0);
  pen.font = "11px ui-monospace, monospace";
  pen.textBaseline = "middle";
  return pen;
}

function painted(first, keys, ramp) { // one dot for each cell
  const rows = length - start, canvas = document.createElement("canvas");
  const image = new ImageData(keys, rows), dots = new Uint32Array(image.data.buffer);
  const dot = ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r;
  const shades = ramp.map(dot), later = dot(rgb(colours.later)), never = dot(rgb(colours.never));
  for (let r = 0; r < rows; r++) {
    const row = first[r + start];
    for (let k = 0; k < keys; k++) dots[r * keys + k] = row[k] < 0 ? never : open(row[k]) ? shades[row[k]] : later;
  }
  canvas.width = keys;
  canvas.height = rows;
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

const BARS = 70;
function layout(keys) {
  const left = 14 + 7 * String(length - 1).length, top = 18;
  const cell = Math.max(1, Math.min(26, Math.floor((room() - left - BARS) / keys)));
  return { left, top, cell, keys, rows: length - start };
}

function drawMap(canvas, first, keys, memory) {
  const at = layout(keys), { left, top, cell, rows } = at;
  const pen = paper(canvas, left + keys * cell + BARS, top + rows * cell + 6);
  canvas.at = { ...at, memory };
  const ramp = range(layers + 1).map(shade);
  const small = once(`${memory} ${state.layer} ${colours.near} ${colours.never}`, () => painted(first, keys, ramp));
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, left, top, keys * cell, rows * cell);
  pen.strokeStyle = colours.line;
  pen.lineWidth = 1;
  if (cell >= 8) for (let i = 0; i <= Math.max(keys, rows); i++) {
    if (i <= keys) line(pen, left + i * cell, top, left + i * cell, top + rows * cell);
    if (i <= rows) line(pen, left, top + i * cell, left + keys * cell, top + i * cell);
  }
  pen.strokeRect(left + 0.5, top + 0.5, keys * cell - 1, rows * cell - 1);
  pen.textAlign = "center";
  if (cell >= 16) for (let r = 0; r < rows; r++) for (let k = 0; k < keys; k++) {
    const layer = first[r + start][k];
    if (!open(layer)) continue;
    pen.fillStyle = inkOn(ramp[layer]);
    pen.fillText(layer, left + (k + 0.5) * cell, top + (r + 0.5) * cell);
  }
  drawSides(pen, at, first, memory);
  if (start && !memory) {
    pen.strokeStyle = colours.quiet;
    pen.setLineDash([4, 3]);
    line(pen, left + start * cell, 4, left + start * cell, top + rows * cell);
    pen.setLineDash([]);
  }
  drawChosen(pen, at, memory);
}

function drawSides(pen, { left, top, cell, keys, rows }, first, memory) {
  pen.fillStyle = colours.quiet;
  for (let k = 0; k < keys; k += tick(keys, cell)) pen.fillText(k, left + (k + 0.5) * cell, top / 2);
  pen.textAlign = "right";
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((n) => n * cell >= 12) || 2000;
  for (let q = start; q < length; q++)
    if (q % step === 0 || q === start) pen.fillText(q, left - 5, top + (q - start + 0.5) * cell);
  const x = left + keys * cell + 8;
  pen.textAlign = "left";
  const most = Math.max(1, ...contexts(first, layers));
  for (let r = 0; r < rows; r++) {
    const n = context(first, r + start), y = top + r * cell;
    pen.fillStyle = css(shade(layers / 2));
    pen.fillRect(x, y + cell * 0.2, (n / most) * 30, Math.max(0.6, cell * 0.6));
    pen.fillStyle = colours.ink;
    if (cell >= 12) pen.fillText(n, x + 34, y + cell / 2);
  }
  pen.fillStyle = colours.quiet;
  pen.fillText("from", x, top / 2);
}

function drawChosen(pen, { left, top, cell, keys, rows }, memory) {
  pen.strokeStyle = colours.path;
  pen.lineWidth = cell < 6 ? 1 : 1.5;
  const frame = (x, y, width, height) => { // a box where cells can be told apart, else a line through them
    if (cell >= 6) pen.strokeRect(x, y, width, height);
    else line(pen, x + (width > cell ? 0 : cell / 2), y + (height > cell ? 0 : cell / 2), x + (width > cell ? width : cell / 2), y + (height > cell ? height : cell / 2));
  };
  if (state.q >= start) frame(left, top + (state.q - start) * cell, keys * cell, cell);
  if (state.k === null) return;
  if (state.memory === memory) frame(left + state.k * cell, top, cell, rows * cell);
  for (const hop of chosen() || []) {
    if (hop.q < start || hop.stream !== (memory ? "cross" : "self")) continue;
    pen.lineWidth = cell < 6 ? 2 : 3;
    pen.strokeRect(left + hop.k * cell, top + (hop.q - start) * cell, Math.max(cell, 3), Math.max(cell, 3));
  }
}

function line(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

function drawPaths() {
  const canvas = $("paths"), left = 62;
  const cell = Math.max(1, Math.min(26, Math.floor((room() - left - 8) / length)));
  const high = Math.max(10, Math.min(46, Math.floor(320 / layers)));
  const pen = paper(canvas, left + length * cell + 8, (layers + 1) * high + 24);
  canvas.at = { left, cell };
  const x = (j) => left + (j + 0.5) * cell, y = (layer) => (layers - layer + 0.5) * high;
  const into = cone(state.q), edges = length <= 48 && layers <= 16;
  const out = (layer, j) => layer <= state.layer && open(own.first[j][state.q], layer);
  const within = (layer, j) => layer <= state.layer && into[layer][j] === 1;
  pen.globalAlpha = 0.45;
  pen.lineWidth = 1;
  if (edges) for (let layer = 1; layer <= state.layer; layer++) for (let i = 0; i < length; i++) for (let j = 0; j < length; j++) {
    const in_ = within(layer, i), out_ = out(layer - 1, j);
    if ((!in_ && !out_) || !(i === j || own.seen[layer - 1][i][j])) continue;
    pen.strokeStyle = in_ ? colours.in : colours.out;
    line(pen, x(j), y(layer - 1), x(i), y(layer));
  }
  pen.globalAlpha = 1;
  const dot = Math.max(0.5, Math.min(cell, high) * 0.3);
  for (let layer = 0; layer <= layers; layer++) for (let j = 0; j < length; j++) {
    pen.fillStyle = within(layer, j) ? colours.in : out(layer, j) ? colours.out : colours.line;
    const lit = within(layer, j) || out(layer, j) ? 1 : 0.5;
    if (cell >= 6) {
      pen.beginPath();
      pen.arc(x(j), y(layer), dot * (lit === 1 ? 1 : 0.6), 0, 7);
      pen.fill();
    } else pen.fillRect(x(j) - cell / 2, y(layer) - high * 0.3 * lit, cell, high * 0.6 * lit);
  }
  drawWay(pen, x, y, Math.min(3, dot));
  pen.fillStyle = colours.quiet;
  pen.textAlign = "center";
  for (let j = 0; j < length; j += tick(length, cell)) pen.fillText(j, x(j), (layers + 1) * high + 12);
  pen.textAlign = "right";
  const skip = Math.ceil(14 / high);
  for (let layer = 0; layer <= layers; layer += skip) pen.fillText(layer ? `layer ${layer}` : "input", left - 8, y(layer));
}

function drawWay(pen, x, y, wide) {
  const hops = (chosen() || []).filter((hop) => hop.stream === "self");
  pen.strokeStyle = pen.fillStyle = colours.path;
  pen.lineWidth = Math.max(2, wide);
  if (state.k === null || (state.memory && !chosen())) return;
  const crossed = (chosen() || []).find((hop) => hop.stream === "cross");
  if (!state.memory && !chosen()) return;
  let layer = crossed ? crossed.layer : 0, at = crossed ? crossed.q : state.k;
  pen.beginPath();
  pen.arc(x(at), y(layer), 4, 0, 7);
  pen.fill();
  pen.beginPath();
  pen.moveTo(x(at), y(layer));
  for (const hop of hops) {
    pen.lineTo(x(hop.k), y(hop.layer - 1));
    pen.lineTo(x(hop.q), y(hop.layer));
    [layer, at] = [hop.layer, hop.q];
  }
  pen.lineTo(x(at), y(Math.max(layer, state.layer)));
  pen.stroke();
}

// ---- the rest of the page ----------------------------------------------------------------------------------------
function swatch(list, entries) {
  list.replaceChildren(...entries.map(([colour, words]) => {
    const item = document.createElement("li"), box = document.createElement("i");
    box.style.background = colour;
    item.append(box, words);
    return item;
  }));
}
function legends() {
  const step = Math.ceil(layers / 8);
  const shown = range(layers + 1).filter((layer) => layer % step === 0);
  const entries = shown.map((layer) => [css(shade(layer)), layer ? `from layer ${layer} on` : "itself"]);
  swatch($("legend"), [...entries, [colours.later, "later than shown"], [colours.never, "never"]]);
  swatch($("ways"), [[colours.in, `carries to position ${state.q}`], [colours.out, `carries on from position ${state.q}`], [colours.path, "one path"]]);
}
function fillTable() {
  const heads = ["position", "reached by", "furthest back", "reaches", ...(across ? ["of the encoder"] : [])];
  const cell = (kind, text) => Object.assign(document.createElement(kind), { textContent: text });
  const row = document.createElement("tr");
  row.append(...heads.map((text) => cell("th", text)));
  document.querySelector("#table thead").replaceChildren(row);
  document.querySelector("#table tbody").replaceChildren(...range(length, start).map((q) => {
    const line = document.createElement("tr");
    line.className = q === state.q ? "on" : "";
    const numbers = [q, context(own.first, q), back(q), onwards(q), ...(across ? [context(across.first, q)] : [])];
    line.append(...numbers.map((n) => cell("td", n)));
    return line;
  }));
}
function masks() {
  $("masks").replaceChildren(...data.masks.map(({ where, text, layers: of }) => {
    const item = document.createElement("li");
    item.className = of.includes(state.layer) && layers > 1 ? "now" : "";
    item.append(`${where}: `, Object.assign(document.createElement("code"), { textContent: text }));
    return item;
  }));
}
function draw() {
  readColours();
  $("layers").value = state.layer;
  $("now").textContent = `${state.layer} of ${plural(layers, "layer")}`;
  $("says").textContent = says();
  $("map-title").textContent = start ? `Positions ${start} to ${length - 1}; those before come out of a cache` : "Positions: rows are reached, columns reach";
  masks();
  legends();
  drawMap($("map"), own.first, length, false);
  $("map").setAttribute("aria-label", `Map of ${length} positions. ${says()}`);
  $("memory").hidden = !across;
  if (across) drawMap($("across"), across.first, sources, true);
  drawPaths();
  if ($("table").open) fillTable();
}

// ---- pointing ----------------------------------------------------------------------------------------------------
const clamp = (n, most, least = 0) => Math.min(most - 1, Math.max(least, n));
function cellAt(canvas, event) {
  const box = canvas.getBoundingClientRect(), { left, top, cell, keys, rows } = canvas.at;
  const k = Math.floor((event.clientX - box.left - left) / cell), r = Math.floor((event.clientY - box.top - top) / cell);
  return r < 0 || r >= rows ? null : { q: r + start, k: k < 0 || k >= keys ? null : k, memory: canvas.at.memory };
}
function point(found, keep) {
  if (!found || (state.kept && !keep)) return;
  Object.assign(state, found, keep ? { kept: true } : {});
  soon();
}
let waiting = false;
function soon() { // one drawing for all that happens between two frames
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    draw();
  });
}
for (const id of ["map", "across"]) {
  $(id).addEventListener("pointermove", (event) => point(cellAt($(id), event), false));
  $(id).addEventListener("click", (event) => point(cellAt($(id), event), true));
}
function columnAt(event) {
  const canvas = $("paths"), { left, cell } = canvas.at;
  const j = Math.floor((event.clientX - canvas.getBoundingClientRect().left - left) / cell);
  return j < 0 || j >= length ? null : j;
}
$("paths").addEventListener("pointermove", (event) => {
  const j = columnAt(event);
  if (j === null) return;
  if (!state.kept) point({ q: j, k: null, memory: false }, false);
  else if (!state.memory && j !== state.k) { state.k = j; soon(); }
});
$("paths").addEventListener("click", (event) => {
  const j = columnAt(event);
  if (j !== null) point({ q: j, k: null, memory: false }, true);
});
function move(key) {
  const most = state.memory ? sources : length;
  if (key === "ArrowUp") state.q = clamp(state.q - 1, length, start);
  else if (key === "ArrowDown") state.q = clamp(state.q + 1, length, start);
  else if (key === "ArrowLeft") state.k = clamp((state.k ?? most) - 1, most);
  else if (key === "ArrowRight") state.k = clamp((state.k ?? -1) + 1, most);
  else return false;
  state.kept = true;
  return true;
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.id === "across") state.memory = state.memory || event.key.startsWith("Arrow");
  if (event.target.id === "map" && event.key.startsWith("Arrow")) state.memory = false;
  if (event.key === "Escape") Object.assign(state, { kept: false, k: null, memory: false });
  else if (event.key === "+" || event.key === "=") state.layer = clamp(state.layer + 1, layers + 1);
  else if (event.key === "-") state.layer = clamp(state.layer - 1, layers + 1);
  else if (event.target === $("layers") || !move(event.key)) return;
  event.preventDefault();
  draw();
});
$("layers").max = layers;
$("layers").addEventListener("input", () => { state.layer = Number($("layers").value); draw(); });
$("table").addEventListener("toggle", draw);
function fromHash() { // #layer=2&q=9&k=1&memory=1 opens the page at a place
  const asked = new URLSearchParams(location.hash.slice(1));
  const number = (name, most, least = 0) => (/^\d+$/.test(asked.get(name) || "") ? clamp(Number(asked.get(name)), most, least) : null);
  state.memory = Boolean(across) && asked.get("memory") === "1";
  state.layer = number("layer", layers + 1) ?? state.layer;
  state.q = number("q", length, start) ?? state.q;
  state.k = number("k", state.memory ? sources : length);
  state.kept = asked.has("q");
  $("table").open = asked.get("table") === "1" || $("table").open;
}
window.addEventListener("hashchange", () => { fromHash(); draw(); });
window.addEventListener("resize", draw);
window.addEventListener("beforeprint", draw);
window.addEventListener("afterprint", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
matchMedia("print").addEventListener("change", draw);
fromHash();
draw();
