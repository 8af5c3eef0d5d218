// A sheet: figures under each other with their titles and the facts of their captions, as one picture for paper.

import { font, PRINT } from "../draw/paint.js";

const SHEET_EDGE = 14, SHEET_GAP = 22, SHEET_LINE = 15, SHEET_TEXT = 11, SHEET_LEAST = 320;
const SHEET_WIDE = 1080; // figures stand beside each other up to here
const SHEET_TITLE = font(13, 600);

/** One figure that holds figures; its `caption` is all that theirs say, once, its `alt` what a reader hears. */
export function sheetOf(figures, { version = "" } = {}) {
  const rows = rowsOfFigures(figures, SHEET_WIDE, SHEET_GAP), { own, shared } = captionsOf(figures);
  const width = Math.max(SHEET_LEAST, ...rows.map((row) => row.width)) + 2 * SHEET_EDGE;
  const ruler = document.createElement("canvas").getContext("2d"), placed = [];
  let y = SHEET_EDGE;
  for (const { figures: beside, width: rowWide } of rows) {
    let x = SHEET_EDGE, bottom = y;
    for (const figure of beside) {
      const room = beside.length > 1 ? figure.width : Math.max(rowWide, width - 2 * SHEET_EDGE);
      const one = placeOnSheet(ruler, figure, own[figures.indexOf(figure)], x, y, room);
      placed.push(one);
      bottom = Math.max(bottom, one.bottom);
      x += figure.width + SHEET_GAP;
    }
    y = bottom + SHEET_GAP;
  }
  const made = `Made with headwise${version ? ` ${version}` : ""}`;
  const common = sheetLines(ruler, shared, width - 2 * SHEET_EDGE, font(SHEET_TEXT)), commonTop = y - SHEET_GAP + 6;
  const height = y - SHEET_GAP + (common.length ? 6 : 0) + (common.length + 1) * SHEET_LINE + SHEET_EDGE;
  const draw = (pen, colours = PRINT) => {
    pen.fillStyle = colours.paper;
    pen.fillRect(0, 0, width, height);
    for (const one of placed) drawOnSheet(pen, one, colours);
    common.forEach((line, i) => sheetText(pen, line, SHEET_EDGE, commonTop + (i + 0.5) * SHEET_LINE, font(SHEET_TEXT), colours.ink));
    sheetText(pen, made, SHEET_EDGE, height - SHEET_EDGE - SHEET_TEXT / 2, font(10), colours.quiet);
  };
  return {
    name: figures.map((figure) => figure.name).join("-"), title: figures.map((figure) => figure.title).filter(Boolean).join("; "),
    caption: [...own.flat(), ...shared, `${made}.`],
    alt: [...figures.map((figure, i) => altOf({ title: figure.title, caption: own[i] })), altOf({ title: "", caption: shared })].filter(Boolean).join(" "), width, height, draw,
  };
}

/** Figures in rows of at most a width, one beside the other: [{figures, width, height}]. */
export function rowsOfFigures(figures, limit, gap) {
  const rows = [];
  for (const figure of figures) {
    const row = rows.at(-1);
    if (row && row.width + gap + figure.width <= limit) {
      row.figures.push(figure);
      row.width += gap + figure.width;
      row.height = Math.max(row.height, figure.height);
    } else rows.push({ figures: [figure], width: figure.width, height: figure.height });
  }
  return rows;
}

/** What captions say: {own: [lines of each figure alone], shared: [lines that several have]}. */
export function captionsOf(figures) {
  const count = new Map();
  for (const { caption } of figures) for (const line of new Set(caption.filter(Boolean))) count.set(line, (count.get(line) ?? 0) + 1);
  const alone = (line) => Boolean(line) && count.get(line) === 1;
  return { own: figures.map(({ caption }) => caption.filter(alone)), shared: [...count].filter(([, times]) => times > 1).map(([line]) => line) };
}

/** What a figure shows, for people who cannot see it. */
export const altOf = (figure) => [figure.title, ...figure.caption].filter(Boolean).map((text) => text.replace(/[.\s]*$/, ".")).join(" ");

function sheetLines(ruler, texts, room, face) {
  ruler.font = face;
  return texts.filter(Boolean).flatMap((text) => inLines(ruler, text, room));
}

/** A figure under its title and over the lines of its caption, in so much room. */
function placeOnSheet(ruler, figure, caption, x, y, room) {
  const titles = sheetLines(ruler, [figure.title], room, SHEET_TITLE), lines = sheetLines(ruler, caption, room, font(SHEET_TEXT));
  const start = y + (titles.length ? titles.length * (SHEET_LINE + 1) + 5 : 0), end = start + figure.height + 8;
  return { figure, titles, lines, x, y, start, end, bottom: end + lines.length * SHEET_LINE };
}

function drawOnSheet(pen, { figure, titles, lines, x, y, start, end }, colours) {
  titles.forEach((line, i) => sheetText(pen, line, x, y + SHEET_LINE / 2 + i * (SHEET_LINE + 1), SHEET_TITLE, colours.ink));
  pen.save();
  pen.translate(x, start);
  pen.font = font(SHEET_TEXT);
  pen.textBaseline = "middle";
  figure.draw(pen, colours);
  pen.restore();
  lines.forEach((line, i) => sheetText(pen, line, x, end + (i + 0.5) * SHEET_LINE, font(SHEET_TEXT), colours.ink));
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
