// Light, dark or as the system has it; kept for the next page where the browser lets us.

const PLACE = "headwise-theme";
export const THEMES = ["auto", "light", "dark"];

/** The theme of a viewer: `get`, `set`, and `changed` is called when colours differ from before. */
export function themeOf(root, changed) {
  let theme = THEMES.includes(root.dataset.theme) ? root.dataset.theme : remembered();
  const system = matchMedia("(prefers-color-scheme: dark)"), print = { before: () => paper(true), after: () => paper(false) };
  const apply = (name) => {
    if (name === "auto") delete root.dataset.theme;
    else root.dataset.theme = name;
    changed();
  };
  const paper = (on) => {
    root.classList.toggle("hw-printing", on); // as wide as a sheet, so that figures are drawn to fit
    apply(on ? "light" : theme);
  };
  const follow = () => theme === "auto" && changed();
  if (theme !== "auto") root.dataset.theme = theme;
  system.addEventListener("change", follow);
  addEventListener("beforeprint", print.before);
  addEventListener("afterprint", print.after);
  return {
    get: () => theme,
    set(name) {
      theme = name;
      try {
        localStorage.setItem(PLACE, name);
      } catch { /* no store here: this view has it all the same */ }
      apply(name);
    },
    stop() {
      system.removeEventListener("change", follow);
      removeEventListener("beforeprint", print.before);
      removeEventListener("afterprint", print.after);
    },
  };
}

function remembered() {
  try {
    const found = localStorage.getItem(PLACE);
    return THEMES.includes(found) ? found : "auto";
  } catch {
    return "auto";
  }
}
