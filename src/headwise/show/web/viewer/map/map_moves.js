// How a map is moved in: the pointer (hover, click, a drawn box, two fingers), the wheel and the keyboard.

import { boxedView, movedView, scaledView } from "./map_view.js";

const ZOOM_STEP = 1.4; // how much zoomBy a press of + goes
const MAP_DRAG = 5; // units of the page before a press is a box

/**
 * Listen on a map's canvas. `map` gives `place(event)`: {row, column, down, across} or null outside the plot, `view()`,
 * `size()`: [rows, columns], and takes `zoom(view)`, `point(place)`, `pick(place)`, `box(from, to)` and `leave()`.
 */
export function listenOnMap(canvas, map) {
  const fingers = new Map();
  let pressed = null, spread = 0;

  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, event);
    if (fingers.size === 2) spread = fingersApart(fingers);
    if (event.button !== 0) return;
    pressed = { event, place: map.place(event), boxed: false };
    if (event.pointerType === "mouse") canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event);
    if (fingers.size === 2) return pinch();
    const far = pressed && Math.hypot(event.clientX - pressed.event.clientX, event.clientY - pressed.event.clientY) > MAP_DRAG;
    if (pressed?.place && event.pointerType === "mouse" && (far || pressed.boxed)) {
      pressed.boxed = true;
      map.box(pressed.place, map.place(event, true));
    } else map.point(map.place(event));
  });
  const lift = (event) => {
    fingers.delete(event.pointerId);
    if (!pressed || event.pointerId !== pressed.event.pointerId) return;
    const { place, boxed } = pressed;
    pressed = null;
    map.box(null);
    if (boxed) zoomTo(place, map.place(event, true));
    else if (place && event.type === "pointerup") map.pick(place);
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => map.leave());
  canvas.addEventListener("wheel", wheel, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const run = MAP_KEYS[`${event.shiftKey && event.key.startsWith("Arrow") ? "Shift+" : ""}${event.key}`];
    if (!run || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    run(map);
  });

  function zoomTo(a, b) {
    const ends = [[a.down, b.down], [a.across, b.across]].map((pair) => [Math.min(...pair), Math.max(...pair)]);
    map.zoom(boxedView(map.view(), ends.flat(), ...map.size()));
  }
  function pinch() {
    const now = fingersApart(fingers);
    if (Math.abs(now - spread) < 6) return;
    const [one] = fingers.values();
    zoomBy(map, spread / now, map.place(one, true));
    spread = now;
    pressed = null;
  }
  /** A wheel that is held with ctrl (so does a pinch on a pad), or on a map that has the focus or is zoomed already. */
  function wheel(event) {
    const place = map.place(event), near = event.ctrlKey || event.metaKey || document.activeElement === canvas || map.zoomed();
    if (!place || !near) return;
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const [, , k0, k1] = map.view();
      map.zoom(movedView(map.view(), 0, Math.round(((event.deltaX || event.deltaY) / 600) * (k1 - k0)), ...map.size()));
    } else zoomBy(map, Math.min(2, Math.max(0.5, Math.exp(event.deltaY * (event.ctrlKey ? 0.01 : 0.0022)))), place);
  }
}

const fingersApart = (fingers) => {
  const [a, b] = [...fingers.values()];
  return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
};

function zoomBy(map, factor, place) {
  map.zoom(scaledView(map.view(), factor, ...map.size(), place?.down, place?.across));
}

/** Move the view by a quarter of its size. */
export function panMap(map, down, across) {
  const [q0, q1, k0, k1] = map.view(), step = (size) => Math.max(1, Math.round(size / 4));
  map.zoom(movedView(map.view(), down * step(q1 - q0), across * step(k1 - k0), ...map.size()));
}

export const zoomIn = (map) => zoomBy(map, 1 / ZOOM_STEP, map.centre());
export const zoomOut = (map) => zoomBy(map, ZOOM_STEP, map.centre());
export const zoomAll = (map) => map.zoom([0, map.size()[0], 0, map.size()[1]]);

/** Keys that move the view, with what they say: [key, says, down, across]. */
export const PANS = [
  ["ArrowLeft", "move the view left", 0, -1], ["ArrowRight", "move the view right", 0, 1],
  ["ArrowUp", "move the view up", -1, 0], ["ArrowDown", "move the view down", 1, 0],
];
const MAP_KEYS = {
  "+": zoomIn, "=": zoomIn, "-": zoomOut, 0: zoomAll, Enter: (map) => map.pickHere(), " ": (map) => map.pickHere(),
  ...Object.fromEntries(PANS.map(([name, , down, across]) => [`Shift+${name}`, (map) => panMap(map, down, across)])),
};
