// What lies over a map without drawing it anew: lines beside the row and the column under the pointer (cells keep their
// colours) with their labels, a box, the small whole.

import { el } from "../draw/dom.js";
import { penOn } from "../draw/paint.js";
import { drawCells } from "../draw/paint_cells.js";

/** Adds its elements to the plot. */
export function mapOverlay(plot) {
  const row = el("i", { class: "hw-map-row" }), column = el("i", { class: "hw-map-column" }), over = el("div", { class: "hw-map-over" }, row, column);
  const rowTag = el("span", { class: "hw-map-tag" }), columnTag = el("span", { class: "hw-map-tag" });
  const frame = el("div", { class: "hw-map-box", hidden: true });
  const mini = el("canvas", { class: "hw-map-mini", hidden: true, "aria-hidden": "true" });
  plot.append(over, frame, rowTag, columnTag, mini);
  let shown = null, going = null;

  /** Where things are, and the small whole where only a part is in view. */
  function place(drawn, colours) {
    const { left, top, wide, high } = drawn.layout, [q0, q1, k0, k1] = drawn.view;
    putAt(over, left, top, wide, high);
    const part = q0 > 0 || k0 > 0 || q1 < drawn.rows.length || k1 < drawn.columns.length;
    mini.hidden = !part;
    shown = drawn;
    if (part) drawMini(mini, drawn, colours);
  }

  function point(drawn, at) {
    const { left, top, wide, high } = drawn.layout, [q0, q1, k0, k1] = drawn.view;
    const y = at && at[0] >= q0 && at[0] < q1 ? ((at[0] - q0) * high) / (q1 - q0) : null;
    const x = at && at[1] !== null && at[1] >= k0 && at[1] < k1 ? ((at[1] - k0) * wide) / (k1 - k0) : null;
    row.hidden = rowTag.hidden = y === null;
    column.hidden = columnTag.hidden = x === null;
    if (y !== null) {
      const size = Math.max(1.5, high / (q1 - q0));
      putAt(row, 0, y - 1, wide, size + 2);
      tagWith(rowTag, drawn.rows[at[0]].label);
      rowTag.style.transform = `translate(${left - 4}px, ${top + y + size / 2}px) translate(-100%, -50%)`;
    }
    if (x !== null) {
      const size = Math.max(1.5, wide / (k1 - k0));
      putAt(column, x - 1, 0, size + 2, high);
      tagWith(columnTag, drawn.columns[at[1]].label);
      columnTag.style.transform = `translate(${left + x + size / 2}px, ${top - 6}px) translate(-50%, -100%)`;
    }
  }

  function box(drawn, from, to) {
    frame.hidden = !from || !to;
    if (frame.hidden) return;
    const { left, top, wide, high } = drawn.layout;
    const [y0, y1] = [from.down, to.down].sort((a, b) => a - b), [x0, x1] = [from.across, to.across].sort((a, b) => a - b);
    putAt(frame, left + x0 * wide, top + y0 * high, (x1 - x0) * wide, (y1 - y0) * high);
  }

  /** `go` is called with the row and column that the small whole is pressed at. */
  function listen(go) {
    const to = (event) => {
      const box = mini.getBoundingClientRect();
      go(((event.clientY - box.top) / box.height) * shown.rows.length, ((event.clientX - box.left) / box.width) * shown.columns.length);
    };
    mini.addEventListener("pointerdown", (event) => {
      going = event.pointerId;
      mini.setPointerCapture(event.pointerId);
      to(event);
    });
    mini.addEventListener("pointermove", (event) => event.pointerId === going && to(event));
    mini.addEventListener("pointerup", () => (going = null));
  }
  return { place, point, box, listen };
}

function putAt(element, x, y, width, height) {
  element.style.transform = `translate(${x}px, ${y}px)`;
  element.style.width = `${width}px`;
  element.style.height = `${height}px`;
}

function tagWith(element, label) {
  const text = element.firstElementChild ?? element.appendChild(document.createElement("bdi"));
  if (text.textContent !== label) text.textContent = label;
}

function drawMini(mini, drawn, colours) {
  const size = Math.min(drawn.layout.left, drawn.layout.top, 110) - 8, [q0, q1, k0, k1] = drawn.view;
  const pen = penOn(mini, size, size, colours), scratch = (mini.scratch ??= {});
  drawCells(pen, drawn.whole, { width: size, height: size, top: drawn.top, colours, seen: drawn.seen, fine: window.devicePixelRatio || 1, scratch });
  const down = size / drawn.rows.length, across = size / drawn.columns.length;
  pen.strokeStyle = colours.out;
  pen.lineWidth = 1.5;
  pen.strokeRect(k0 * across + 0.5, q0 * down + 0.5, Math.max(3, (k1 - k0) * across - 1), Math.max(3, (q1 - q0) * down - 1));
}
