// Elements, words and numbers, written the same everywhere.

/** An element: el("button", {class: "x", onclick}, "text", other). Text is always text, never HTML. */
export function el(name, given = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "class") made.className = value;
    else if (key in made && typeof value !== "string") made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** A weight or share as people read it: .75, 1.00, <.001. */
export function share(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (x > 0 && x < 0.001) return "<.001";
  const text = x.toFixed(Math.abs(x) < 0.1 ? 3 : 2);
  return text.replace(/^(-?)0\./, "$1.");
}

/** A number of any size in few digits. */
export function short(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e5 || size < 1e-3) return x.toExponential(1);
  return String(Number(x.toPrecision(3)));
}

export const plural = (n, word, many = `${word}s`) => `${n.toLocaleString("en")} ${n === 1 ? word : many}`;

/** A text that keeps its own direction among others (Arabic and Hebrew in an English line). */
export const isolated = (text) => `\u2068${text}\u2069`;
