// A pen that writes SVG: the part of a canvas' 2d context that figures draw with. Text stays text, pictures are embedded.

const SVG_START = {
  fillStyle: "#000000", strokeStyle: "#000000", lineWidth: 1, lineCap: "butt", lineJoin: "miter", font: "10px sans-serif",
  textAlign: "start", textBaseline: "alphabetic", globalAlpha: 1, imageSmoothingEnabled: true,
};
const SVG_SHARP = 4; // dots for a unit that a picture of cells has at least, so that no reader of SVG blurs it
const SVG_MOST = 4096;
const SVG_ANCHORS = { start: "start", left: "start", center: "middle", end: "end", right: "end" };

/** Text as XML holds it: characters it may not hold become U+FFFD. */
const escaped = (text) =>
  String(text).replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]|[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
    .replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");

/** The language a text is in, as far as its script says so; "" where that is Latin or another. */
function languageOf(text) {
  if (/[\u3040-\u30ff]/.test(text)) return "ja";
  if (/[\uac00-\ud7af]/.test(text)) return "ko";
  return /\p{Script=Han}/u.test(text) ? "zh" : "";
}

/** Draws like a canvas' 2d context; `text(title, desc)` is the SVG. `width` and `height` in units of the page. */
export class SvgPen {
  #matrix = [1, 0, 0, 1, 0, 0];
  #dashes = [];
  #clips = 0; // opened since the last save
  #stack = [];
  #path = [];
  #parts = [];
  #ruler = document.createElement("canvas").getContext("2d");

  constructor(width, height) {
    Object.assign(this, SVG_START, { width, height });
  }

  save() {
    const names = Object.fromEntries(Object.keys(SVG_START).map((name) => [name, this[name]]));
    this.#stack.push([names, this.#matrix, this.#dashes, this.#clips]);
    this.#clips = 0;
  }
  restore() {
    if (!this.#stack.length) return;
    this.#parts.push("</g>".repeat(this.#clips));
    const [names, ...rest] = this.#stack.pop();
    Object.assign(this, names);
    [this.#matrix, this.#dashes, this.#clips] = rest;
  }
  translate(x, y) { this.#turn([1, 0, 0, 1, x, y]); }
  scale(x, y) { this.#turn([x, 0, 0, y, 0, 0]); }
  rotate(angle) { this.#turn([Math.cos(angle), Math.sin(angle), -Math.sin(angle), Math.cos(angle), 0, 0]); }
  #turn([a, b, c, d, e, f]) {
    const [A, B, C, D, E, F] = this.#matrix;
    this.#matrix = [A * a + C * b, B * a + D * b, A * c + C * d, B * c + D * d, A * e + C * f + E, B * e + D * f + F];
  }
  #at(x, y) {
    const [a, b, c, d, e, f] = this.#matrix;
    return `${svgNumber(a * x + c * y + e)} ${svgNumber(b * x + d * y + f)}`;
  }
  get #size() {
    const [a, b, c, d] = this.#matrix;
    return Math.sqrt(Math.abs(a * d - b * c));
  }
  get #placed() {
    return this.#matrix.join() === "1,0,0,1,0,0" ? "" : ` transform="matrix(${this.#matrix.map(svgNumber).join(" ")})"`;
  }

  beginPath() { this.#path = []; }
  closePath() { if (this.#path.length) this.#path.push("Z"); }
  moveTo(x, y) { this.#path.push(`M${this.#at(x, y)}`); }
  lineTo(x, y) { this.#path.push(`${this.#path.length ? "L" : "M"}${this.#at(x, y)}`); }
  bezierCurveTo(a, b, c, d, x, y) { this.#path.push(`C${this.#at(a, b)} ${this.#at(c, d)} ${this.#at(x, y)}`); }
  quadraticCurveTo(a, b, x, y) { this.#path.push(`Q${this.#at(a, b)} ${this.#at(x, y)}`); }
  rect(x, y, w, h) {
    this.#path.push(`M${this.#at(x, y)}L${this.#at(x + w, y)}L${this.#at(x + w, y + h)}L${this.#at(x, y + h)}Z`);
  }
  /** Part of a circle, as cubic curves of a quarter turn at most. */
  arc(x, y, r, from, to, back = false) {
    let sweep = to - from;
    if (!back && sweep < 0) sweep = (sweep % (2 * Math.PI)) + 2 * Math.PI;
    if (back && sweep > 0) sweep = (sweep % (2 * Math.PI)) - 2 * Math.PI;
    sweep = Math.max(-2 * Math.PI, Math.min(2 * Math.PI, sweep));
    const steps = Math.max(1, Math.ceil(Math.abs(sweep) / (Math.PI / 2))), step = sweep / steps, k = (4 / 3) * Math.tan(step / 4);
    const on = (angle) => [x + r * Math.cos(angle), y + r * Math.sin(angle)];
    this.lineTo(...on(from));
    for (let i = 0; i < steps; i++) {
      const a = from + i * step, b = a + step, [x0, y0] = on(a), [x1, y1] = on(b);
      this.bezierCurveTo(x0 - k * r * Math.sin(a), y0 + k * r * Math.cos(a), x1 + k * r * Math.sin(b), y1 - k * r * Math.cos(b), x1, y1);
    }
  }
  setLineDash(dashes) { this.#dashes = [...dashes]; }
  fill() { this.#draw(this.#path.join(""), this.#filled()); }
  stroke() { this.#draw(this.#path.join(""), this.#stroked()); }
  fillRect(x, y, w, h) { this.#rectangle(x, y, w, h, this.#filled()); }
  strokeRect(x, y, w, h) { this.#rectangle(x, y, w, h, this.#stroked()); }
  clip() {
    const id = `headwise-clip-${(svgClips += 1)}`;
    this.#parts.push(`<clipPath id="${id}"><path d="${this.#path.join("")}"/></clipPath><g clip-path="url(#${id})">`);
    this.#clips += 1;
  }
  #draw(d, style) { if (d) this.#parts.push(`<path d="${d}"${style}/>`); }
  #rectangle(x, y, w, h, style) {
    const kept = this.#path;
    this.#path = [];
    this.rect(x, y, w, h);
    this.#draw(this.#path.join(""), style);
    this.#path = kept;
  }
  #filled() { return svgColour("fill", this.fillStyle, this.globalAlpha); }
  #stroked() {
    const size = this.#size, dashes = this.#dashes.map((part) => svgNumber(part * size)).join(" ");
    return ` fill="none"${svgColour("stroke", this.strokeStyle, this.globalAlpha)} stroke-width="${svgNumber(this.lineWidth * size)}"` +
      (this.lineCap === "butt" ? "" : ` stroke-linecap="${this.lineCap}"`) + (dashes ? ` stroke-dasharray="${dashes}"` : "");
  }

  measureText(text) {
    this.#ruler.font = this.font;
    return this.#ruler.measureText(text);
  }
  fillText(text, x, y) {
    const [, weight = "400", size, family] = /^(?:(\w+) )?([\d.]+)px (.*)$/.exec(this.font) ?? [null, "400", "10", "sans-serif"];
    const anchor = SVG_ANCHORS[this.textAlign], language = languageOf(text);
    this.#parts.push(
      `<text x="${svgNumber(x)}" y="${svgNumber(y + this.#down(text))}" font-size="${size}" font-family="${escaped(family)}"` +
      (weight === "400" ? "" : ` font-weight="${weight}"`) + (anchor === "start" ? "" : ` text-anchor="${anchor}"`) +
      (language ? ` xml:lang="${language}"` : "") + this.#filled() + this.#placed + ` xml:space="preserve">${escaped(text)}</text>`,
    );
  }
  /** How far under its y the base line of a text is. */
  #down(text) {
    if (this.textBaseline === "alphabetic") return 0;
    this.#ruler.font = this.font;
    this.#ruler.textBaseline = "alphabetic";
    const base = this.#ruler.measureText(text).actualBoundingBoxAscent;
    this.#ruler.textBaseline = this.textBaseline;
    const found = base - this.#ruler.measureText(text).actualBoundingBoxAscent;
    this.#ruler.textBaseline = "alphabetic";
    return found;
  }

  drawImage(canvas, x, y, w = canvas.width, h = canvas.height) {
    const wide = this.imageSmoothingEnabled ? canvas : svgEnlarged(canvas, w, h);
    this.#parts.push(
      `<image x="${svgNumber(x)}" y="${svgNumber(y)}" width="${svgNumber(w)}" height="${svgNumber(h)}" preserveAspectRatio="none"` +
      (this.imageSmoothingEnabled ? "" : ' style="image-rendering:pixelated"') +
      (this.globalAlpha === 1 ? "" : ` opacity="${svgNumber(this.globalAlpha)}"`) + `${this.#placed} href="${wide.toDataURL("image/png")}"/>`,
    );
  }

  /** The whole, with a title and a description for people who cannot see it. */
  text(title = "", desc = "") {
    while (this.#stack.length) this.restore();
    const closed = this.#parts.join("\n") + "</g>".repeat(this.#clips), { width, height } = this;
    return `<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="${svgNumber(width)}" height="${svgNumber(height)}" ` +
      `viewBox="0 0 ${svgNumber(width)} ${svgNumber(height)}" role="img">\n<title>${escaped(title)}</title>\n<desc>${escaped(desc)}</desc>\n${closed}\n</svg>\n`;
  }
}

let svgClips = 0; // clips of several pictures in one document have different names

const svgNumber = (x) => String(Math.round(x * 1000) / 1000);

/** The attributes of a colour; a see-through one (#rrggbbaa, rgba) apart from how far it is. */
function svgColour(what, colour, alpha) {
  let plain = colour, part = alpha;
  const short = /^#[0-9a-f]{8}$/i.exec(colour), long = /^rgba?\(([^)]*)\)$/.exec(colour);
  if (short) [plain, part] = [colour.slice(0, 7), (parseInt(colour.slice(7), 16) / 255) * alpha];
  else if (long) {
    const [r, g, b, a] = long[1].split(/[\s,/]+/).map((piece) => parseFloat(piece) * (piece.endsWith("%") ? 0.01 : 1));
    [plain, part] = [`rgb(${r},${g},${b})`, (a ?? 1) * alpha];
  }
  return ` ${what}="${plain}"${part === 1 ? "" : ` ${what}-opacity="${svgNumber(part)}"`}`;
}

/** A picture of cells with every dot as several, a whole number of them. */
function svgEnlarged(canvas, w, h) {
  const wanted = Math.ceil(Math.max((w * SVG_SHARP) / canvas.width, (h * SVG_SHARP) / canvas.height));
  const times = Math.max(1, Math.min(wanted, Math.floor(SVG_MOST / Math.max(canvas.width, canvas.height))));
  if (times === 1) return canvas;
  const made = document.createElement("canvas");
  made.width = canvas.width * times;
  made.height = canvas.height * times;
  const pen = made.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(canvas, 0, 0, made.width, made.height);
  return made;
}
