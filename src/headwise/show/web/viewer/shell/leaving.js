// Where the focus goes when a list, a menu or the search is left: back to where it was, else to the viewer itself.

/** What has the focus, also within a shadow. */
const focusNow = () => document.activeElement?.shadowRoot?.activeElement ?? document.activeElement;

/** Give the focus back to what had it, where that is still there; else to the viewer, so that its keys are heard. */
export function giveBack(app, before) {
  const there = before && before !== app.root && app.root.contains(before) && before.getClientRects().length > 0;
  (there ? before : app.root.querySelector(".hw-frame"))?.focus({ preventScroll: true });
}

/** Lists (select) take the keys they need and no others: Esc leaves one, and after a choice by pointer the viewer has the
 * focus again. Returns what ends that. */
export function hearSelects(app) {
  let pointed = null;
  const { root } = app, out = (select) => giveBack(app, select.closest("details, .hw-foldable")?.querySelector("summary, .hw-fold"));
  const hears = {
    pointerdown: (event) => (pointed = event.target.closest?.("select") ?? null),
    change: (event) => event.target === pointed && out(event.target),
    keydown(event) {
      pointed = null;
      if (event.key !== "Escape" || event.defaultPrevented || !event.target.matches?.("select")) return;
      event.preventDefault();
      event.stopPropagation();
      out(event.target);
    },
  };
  for (const [name, run] of Object.entries(hears)) root.addEventListener(name, run);
  return () => Object.entries(hears).forEach(([name, run]) => root.removeEventListener(name, run));
}

/** Open a menu (details) by its key and go to its first button, or close it; then the focus goes back. */
export function openByKey(app, box) {
  if (!box) return;
  const before = focusNow();
  box.open = !box.open;
  if (!box.open) return;
  box.querySelector("button:not(:disabled)")?.focus();
  const closed = () => {
    if (box.open) return;
    box.removeEventListener("toggle", closed);
    const now = focusNow();
    if (now === document.body || box.contains(now)) giveBack(app, before);
  };
  box.addEventListener("toggle", closed);
}
