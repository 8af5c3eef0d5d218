// One line for what went wrong; a panel that fails says so here and leaves the others alone.

import { el } from "../draw/dom.js";

export function noticeOf() {
  const text = el("span"), close = el("button", { type: "button", "aria-label": "Close this line", onclick: () => hide() }, "×");
  const element = el("p", { class: "hw-notice", role: "alert", hidden: true }, text, close);
  let from = null;
  const hide = () => {
    element.hidden = true;
    text.textContent = "";
    from = null;
  };
  return {
    element, hide,
    show(line, panel = null) {
      from = panel;
      text.textContent = line;
      element.hidden = false;
    },
    /** What this panel had to say is no longer so. */
    settled: (panel) => from === panel && hide(),
  };
}

/** Update a panel; what it throws, now or later, becomes a line. */
export function guarded(panel, notice, state, changed) {
  const failed = (error) => {
    if (error?.name !== "AbortError") notice.show(`${panel.title}: ${error?.message ?? error}.`.replace(/\.\.$/, "."), panel);
  };
  try {
    const turn = (panel.turn = (panel.turn ?? 0) + 1);
    Promise.resolve(panel.update(state, changed)).then(() => turn === panel.turn && notice.settled(panel), failed);
  } catch (error) {
    failed(error);
  }
}
