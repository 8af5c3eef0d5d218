// Colours and pens. A figure draws with a pen: the 2d context of a canvas, or an SvgPen, which has the part of it that
// figures use. Weights have a scale of one hue that only grows darker (ColorBrewer Blues), told apart by colour-blind
// readers and in grey; on a dark ground it only grows lighter.

const BLUES = [[247, 251, 255], [198, 219, 239], [107, 174, 214], [33, 113, 181], [8, 48, 107]];
const NIGHTS = [[20, 23, 27], [24, 52, 84], [42, 104, 160], [107, 174, 214], [222, 238, 252]];
const FONT = 'system-ui, "Segoe UI", "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';

export const font = (size, weight = 400) => `${weight === 400 ? "" : `${weight} `}${size}px ${FONT}`;

/** The colours in force around an element: of the stylesheet, `dark` says which scale weights have. */
export function coloursOf(element) {
  const css = getComputedStyle(element);
  const found = { dark: css.getPropertyValue("--dark").trim() === "1" };
  for (const name of ["paper", "ink", "quiet", "line", "panel", "in", "out", "mark", "unseen"])
    found[name] = css.getPropertyValue(`--${name}`).trim();
  return found;
}

/** The colours of paper, whatever the screen has: what pictures for others are drawn with. */
export const PRINT = {
  dark: false, paper: "#ffffff", ink: "#1b1f24", quiet: "#5b6470", line: "#d5dae0", panel: "#f5f7f9", in: "#0072b2",
  out: "#d55e00", mark: "#1b1f24", unseen: "#ffffff",
};

/** The colour of a part (0 to 1) of the top of the scale, as [r, g, b]. */
export function shade(part, dark = false) {
  const ramp = dark ? NIGHTS : BLUES;
  const place = Math.min(Math.max(part, 0), 1) * (ramp.length - 1), low = Math.min(Math.floor(place), ramp.length - 2);
  return ramp[low].map((c, i) => Math.round(c + (ramp[low + 1][i] - c) * (place - low)));
}

/** 256 shades as the numbers of four bytes that an ImageData holds. */
export const ramp = (dark) => (ramps[dark] ??= Uint32Array.from({ length: 256 }, (_, i) => dot(shade(i / 255, dark))));
const ramps = {};
export const dot = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
export const css = (c) => `rgb(${c.join(",")})`;
export const rgb = (hex) =>
  (hex.length < 6 ? [1, 2, 3].map((i) => parseInt(hex[i] + hex[i], 16)) : [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
export const mix = (a, b, part) => a.map((c, i) => Math.round(c + (b[i] - c) * part));
export const inkOn = ([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#191919" : "#ffffff");

/** The number at the dark end: the smallest of .01, .02, .05, ... 1 that holds this one. */
export const scaleTop = (largest) => [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].find((top) => largest <= top) ?? 1;

/** A canvas of this size in the units of the page, sharp on any screen, ready to draw on. */
export function penOn(canvas, width, height, colours) {
  const dots = width * height > 6e6 ? 1 : window.devicePixelRatio || 1;
  const wide = Math.round(width * dots), high = Math.round(height * dots);
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(dots, 0, 0, dots, 0, 0);
  pen.fillStyle = colours.paper;
  pen.fillRect(0, 0, width, height);
  pen.textBaseline = "middle";
  pen.font = font(11);
  return pen;
}
