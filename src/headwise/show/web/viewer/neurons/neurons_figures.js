// Pictures of what blocks add: bars by layer at one token, a map of layers and tokens, and the neurons that fire.

import { isolated, share, short } from "../draw/dom.js";
import { drawColumnLabel } from "../draw/labels.js";
import { css, font, shade } from "../draw/paint.js";
import { cutLabel, labelWidth } from "../masks/reach_map.js";

export const PARTS_SAID = { attention: "attention", cross: "cross-attention", ffn: "feed-forward", stream: "stream after" };
const PART_COLOURS = { attention: "in", ffn: "out", cross: "third" };
const THIRD = "#009e73";

const partColour = (name, colours) => colours[PART_COLOURS[name]] ?? THIRD;
const partsAdded = (stream) => ["attention", "cross", "ffn"].filter((name) => stream[name]);

/** What a part adds along the stream after the block, as a share of the stream's length. */
export function addsPart(stream, name, layer, token) {
  const along = stream[`${name}_along`][layer][token], whole = stream.stream[layer][token];
  return along === null || !whole ? null : along / whole;
}

/** Bars by layer: left the length that each part adds, right how much of the stream after the block it is. */
export function addsFigure({ stream, token, labels, facts }, wide) {
  const parts = partsAdded(stream), layers = stream.layers.length, row = Math.max(8 * parts.length * 0.7, Math.min(18, Math.floor(520 / layers)));
  const left = 16 + Math.max(...stream.layers.map((id) => labelWidth(id))), top = 40, half = (wide - left - 30) / 2;
  const most = Math.max(1e-9, ...parts.flatMap((name) => stream[name].map((row_) => row_[token] ?? 0)));
  const shares = parts.flatMap((name) => stream.layers.map((_, l) => addsPart(stream, name, l, token) ?? 0));
  const far = Math.max(0.05, ...shares), near = Math.min(0, ...shares), zero = left + half + 24 + (half * -near) / (far - near);
  return {
    name: "adds", title: `What the blocks add at “${labels[token]}” (${token})`, width: wide, height: top + row * layers + 26,
    caption: [...facts, `Token ${token}, “${labels[token]}”. Left: L2 norm of what each block's ${parts.map((name) => PARTS_SAID[name]).join(", ")} adds, in units of the residual stream. Right: its component along the stream after the block, as a share of that stream's length. ${stream.says}.`],
    draw(pen, colours) {
      drawAddsHead(pen, colours, parts, left, half);
      const high = (row - 2) / parts.length;
      stream.layers.forEach((id, l) => {
        const y = top + l * row;
        pen.fillStyle = colours.quiet;
        pen.textAlign = "right";
        if (row >= 12 || l % 2 === 0) pen.fillText(id, left - 6, y + row / 2);
        parts.forEach((name, i) => {
          pen.fillStyle = partColour(name, colours);
          pen.fillRect(left, y + 1 + i * high, (half * (stream[name][l][token] ?? 0)) / most, Math.max(1, high - 0.5));
          const part = addsPart(stream, name, l, token) ?? 0, end = zero + (half * part) / (far - near);
          pen.fillRect(Math.min(zero, end), y + 1 + i * high, Math.max(Math.abs(end - zero), 0.5), Math.max(1, high - 0.5));
        });
      });
      drawAddsAxes(pen, colours, { left, top, half, zero, far, near, most, bottom: top + row * layers });
    },
  };
}

function drawAddsHead(pen, colours, parts, left, half) {
  pen.font = font(11);
  pen.textAlign = "left";
  let x = left;
  for (const name of parts) {
    pen.fillStyle = partColour(name, colours);
    pen.fillRect(x, 4, 10, 10);
    pen.fillStyle = colours.ink;
    pen.fillText(PARTS_SAID[name], x + 14, 9);
    x += labelWidth(PARTS_SAID[name]) + 28;
  }
  pen.fillStyle = colours.quiet;
  pen.fillText("length added", left, 28);
  pen.fillText("along the stream, share", left + half + 24, 28);
}

function drawAddsAxes(pen, colours, { left, top, half, zero, far, near, most, bottom }) {
  pen.strokeStyle = colours.line;
  pen.lineWidth = 1;
  for (const x of [left, zero]) {
    pen.beginPath();
    pen.moveTo(x - 0.5, top - 2);
    pen.lineTo(x - 0.5, bottom + 2);
    pen.stroke();
  }
  pen.fillStyle = colours.quiet;
  const mark = (text, x, align) => {
    pen.textAlign = align;
    pen.fillText(text, x, bottom + 13);
  };
  mark("0", left, "left");
  mark(short(most), left + half, "right");
  if (zero - left - half - 24 > 34) mark(share(near), left + half + 24, "left");
  mark("0", zero, "center");
  mark(share(far), left + 2 * half + 24, "right");
}

/** A map of layers x tokens of one part, on a scale of powers; darker is longer. */
export function heatFigure({ stream, token, part, labels, facts }, wide) {
  const rows = stream[part], layers = rows.length, left = 16 + Math.max(...stream.layers.map((id) => labelWidth(id)));
  const cell = Math.min(26, (wide - left - 10) / labels.length), high = Math.max(6, Math.min(18, Math.floor(520 / layers)));
  const words = cell >= 11, top = words ? Math.min(110, Math.max(...labels.map((label) => labelWidth(cutLabel(label)))) + 10) : 20;
  const all = rows.flat().filter((x) => x !== null && x > 0).sort((a, b) => a - b), low = all[Math.floor(all.length * 0.02)] ?? 1, most = all[all.length - 1] ?? 1;
  const scale = (x) => (x === null || x <= 0 ? 0 : Math.min(1, Math.max(0, Math.log(x / low) / Math.max(Math.log(most / low), 1e-9))));
  const at = { left, top, cell, high, words, labels, layers: stream.layers };
  return {
    name: "heat", title: `Length of what is added: ${PARTS_SAID[part]}`, width: left + cell * labels.length + 10, height: top + high * layers + 38,
    caption: [...facts, `${part === "stream" ? "L2 norm of the residual stream after each block" : `L2 norm of what each block's ${PARTS_SAID[part]} adds`}, by layer and token; logarithmic scale from ${short(low)} to ${short(most)}.`],
    point(x, y) {
      const t = Math.floor((x - left) / cell);
      return t < 0 || t >= labels.length || y > top + high * layers ? null : { token: t };
    },
    draw(pen, colours) {
      rows.forEach((row, l) => row.forEach((x, t) => {
        pen.fillStyle = css(shade(0.04 + 0.96 * scale(x), colours.dark));
        pen.fillRect(left + t * cell, top + l * high, cell + 0.4, high + 0.4);
      }));
      drawHeatLabels(pen, colours, at);
      pen.strokeStyle = colours.out;
      pen.lineWidth = 2;
      pen.strokeRect(left + token * cell, top, Math.max(cell, 2), high * layers);
      drawHeatScale(pen, colours, left, top + high * layers + 12, Math.max(120, Math.min(220, cell * labels.length)), low, most);
    },
  };
}

function drawHeatLabels(pen, colours, { left, top, cell, high, words, labels, layers }) {
  pen.fillStyle = colours.quiet;
  pen.font = font(11);
  pen.textAlign = "right";
  const skip = Math.ceil(12 / high);
  layers.forEach((id, l) => { if (l % skip === 0) pen.fillText(id, left - 6, top + (l + 0.5) * high); });
  const step = words ? 1 : Math.ceil(40 / cell);
  labels.forEach((label, t) => {
    if (t % step) return;
    const x = left + (t + 0.5) * cell;
    if (words) return drawColumnLabel(pen, label, isolated(cutLabel(label)), x, top - 5, { room: top - 8, step: 11 });
    pen.textAlign = "center";
    pen.fillText(String(t), x, top / 2);
  });
}

function drawHeatScale(pen, colours, x, y, wide, low, most) {
  for (let i = 0; i < wide; i++) {
    pen.fillStyle = css(shade(0.04 + 0.96 * (i / wide), colours.dark));
    pen.fillRect(x + i, y, 1.5, 8);
  }
  pen.strokeStyle = colours.line;
  pen.lineWidth = 1;
  pen.strokeRect(x, y, wide, 8);
  pen.fillStyle = colours.quiet;
  pen.textAlign = "left";
  pen.fillText(short(low), x, y + 17);
  pen.textAlign = "right";
  pen.fillText(`${short(most)} (log)`, x + wide, y + 17);
}

/** The neurons that fire most at a token as a picture. */
export function neuronsFigure({ neurons, token, labels, facts }, wide) {
  const row = 20, top = 26, at = [4, 150, 216, 282, 372], heads = ["neuron", "activation", "adds", "share", "raises"];
  return {
    name: "neurons", title: `Neurons that fire most at “${labels[token]}” (${token})`, width: wide, height: top + row * neurons.length + 6,
    caption: [...facts, `Token ${token}, “${labels[token]}”. Adds: length of what the neuron adds; share: of what its layer's network adds; raises: the tokens its row of W2 raises most through the unembedding.`],
    draw(pen, colours) {
      pen.font = font(11);
      pen.fillStyle = colours.quiet;
      heads.forEach((text, i) => {
        pen.textAlign = i === 0 || i === 4 ? "left" : "right";
        pen.fillText(text, at[i] + (i === 1 || i === 2 ? 40 : i === 3 ? 30 : 0), 12);
      });
      neurons.forEach(([id, activation, adds, part, raised], i) => {
        const y = top + (i + 0.5) * row;
        pen.fillStyle = colours.ink;
        pen.textAlign = "left";
        pen.fillText(id, at[0], y);
        pen.fillText(cutLabel(raised.join("  "), 44), at[4], y);
        pen.textAlign = "right";
        pen.fillText(short(activation), at[1] + 40, y);
        pen.fillText(short(adds), at[2] + 40, y);
        pen.fillText(share(part), at[3] + 30, y);
        pen.fillStyle = part < 0 ? colours.out : colours.in;
        pen.fillRect(at[3] + 36, y - 5, Math.min(1, Math.abs(part ?? 0)) * 44, 10);
      });
    },
  };
}
