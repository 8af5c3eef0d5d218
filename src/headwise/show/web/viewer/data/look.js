// What a drawn panel watches beside the state: its width, and whether the page is light or dark.

/** Call `run` soon after the element's width or the page's colours change; returns the width and colours to draw with. */
export function watchLook(app, element, run) {
  const held = { width: 0, colours: null };
  const fresh = () => {
    held.colours = null;
    requestAnimationFrame(run);
  };
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width === held.width || width === 0) return;
    held.width = width;
    run();
  }).observe(element);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", fresh);
  new MutationObserver(fresh).observe(app.root, { attributes: true, attributeFilter: ["data-theme", "class"] });
  return {
    width: () => held.width || (held.width = element.clientWidth),
    refresh: () => (held.colours = null),
    colours: () => (held.colours ??= app.colours()),
  };
}

/** Call when the browser has nothing better to do. */
export const whenIdle = (run) => (window.requestIdleCallback ? requestIdleCallback(run, { timeout: 500 }) : setTimeout(run, 30));

/** Heads beside one in its grid, those in the direction it was come to first. */
export function headsBeside(app, head, before, at) {
  const stream = app.streamOf(head, app.scene(at)), own = app.layerOf(head, app.scene(at));
  if (!own) return [];
  const place = (id) => {
    const layer = stream.layers.findIndex((one) => id.startsWith(`${one.id}.`));
    return layer < 0 ? null : [layer, stream.layers[layer].heads.indexOf(Number(id.slice(stream.layers[layer].id.length + 1)))];
  };
  const idAt = ([layer, head_]) => {
    const one = stream.layers[layer];
    return one && one.heads[head_] !== undefined ? `${one.id}.${one.heads[head_]}` : null;
  };
  const [layer, column] = place(head), came = before ? place(before) : null;
  const step = came ? [Math.sign(layer - came[0]), Math.sign(column - came[1])] : [0, 0];
  const wanted = [[layer + step[0], column + step[1]], [layer + 2 * step[0], column + 2 * step[1]], [layer, column + 1], [layer + 1, column],
    [layer, column - 1], [layer - 1, column]];
  return [...new Set(wanted.map(idAt))].filter((id) => id !== null && id !== head);
}
