// A sheet: figures under each other with their titles and the facts of their captions, as one picture for paper.

import { font, PRINT } from "./paint.js";

const SHEET_EDGE = 14, SHEET_GAP = 22, SHEET_LINE = 15, SHEET_TEXT = 11, SHEET_LEAST = 320;

/** One figure that holds figures; its `caption` is all that theirs sheetText, its `alt` what a reader hears. */
export function sheetOf(figures, { version = "" } = {}) {
  const width = Math.max(SHEET_LEAST, ...figures.map((figure) => figure.width)) + 2 * SHEET_EDGE;
  const ruler = document.createElement("canvas").getContext("2d");
  const placed = [];
  let y = SHEET_EDGE;
  for (const figure of figures) {
    ruler.font = font(SHEET_TEXT);
    const lines = figure.caption.filter(Boolean).flatMap((text) => inLines(ruler, text, width - 2 * SHEET_EDGE));
    const start = y + (figure.title ? SHEET_LINE + 6 : 0), end = start + figure.height + 8;
    placed.push({ figure, lines, y, start, end });
    y = end + lines.length * SHEET_LINE + SHEET_GAP;
  }
  const made = `Made with headwise${version ? ` ${version}` : ""}`;
  const height = y - SHEET_GAP + SHEET_LINE + SHEET_EDGE;
  const draw = (pen, colours = PRINT) => {
    pen.fillStyle = colours.paper;
    pen.fillRect(0, 0, width, height);
    for (const one of placed) drawOnSheet(pen, one, colours);
    sheetText(pen, made, SHEET_EDGE, height - SHEET_EDGE - SHEET_TEXT / 2, font(10), colours.quiet);
  };
  return {
    name: figures.map((figure) => figure.name).join("-"), title: figures.map((figure) => figure.title).filter(Boolean).join("; "),
    caption: [...figures.flatMap((figure) => figure.caption.filter(Boolean)), `${made}.`],
    alt: figures.map(altOf).join(" "), width, height, draw,
  };
}

/** What a figure shows, for people who cannot see it. */
export const altOf = (figure) => [figure.title, ...figure.caption].filter(Boolean).map((text) => text.replace(/[.\s]*$/, ".")).join(" ");

function drawOnSheet(pen, { figure, lines, y, start, end }, colours) {
  if (figure.title) sheetText(pen, figure.title, SHEET_EDGE, y + SHEET_LINE / 2, font(13, 600), colours.ink);
  pen.save();
  pen.translate(SHEET_EDGE, start);
  pen.font = font(SHEET_TEXT);
  pen.textBaseline = "middle";
  figure.draw(pen, colours);
  pen.restore();
  lines.forEach((line, i) => sheetText(pen, line, SHEET_EDGE, end + (i + 0.5) * SHEET_LINE, font(SHEET_TEXT), colours.ink));
}

function sheetText(pen, text, x, y, face, colour) {
  pen.font = face;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.fillStyle = colour;
  pen.fillText(text, x, y);
}

/** A text in lines of at most a width, broken between words, and within where one is longer (Chinese has no spaces). */
export function inLines(ruler, text, width) {
  const lines = [];
  let line = "";
  for (const piece of text.split(/(?<=\s)/)) {
    if (ruler.measureText((line + piece).trimEnd()).width <= width) {
      line += piece;
      continue;
    }
    const whole = ruler.measureText(piece.trimEnd()).width <= width;
    if (whole && line) {
      lines.push(line.trimEnd());
      line = piece;
      continue;
    }
    for (const letter of piece) {
      if (line && ruler.measureText(line + letter).width > width) {
        lines.push(line);
        line = "";
      }
      line += letter;
    }
  }
  if (line.trim()) lines.push(line.trimEnd());
  return lines;
}
