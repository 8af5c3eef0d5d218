// Pictures for others: what a tab shows as PNG or SVG at paper quality, with the facts of its caption, and its alt text.

import { el } from "../draw/dom.js";
import { PRINT } from "../draw/paint.js";
import { SvgPen } from "./svg.js";
import { sheetOf } from "./sheet.js";
import { withFacts } from "./png.js";

const EXPORT_INCH = 96; // units of the page
const EXPORT_DPI = 300; // dots of an inch in print
const EXPORT_SIDE = 16000, EXPORT_AREA = 64e6; // dots that browsers draw

/**
 * Buttons that save pictures. What is taken: the figures of the tab shown, of the panels that are always there ("grid"),
 * or both. `app.panels` holds all panels (main.js); one has figures where it has a function `figures(state)`.
 */
export function exportPanel(app) {
  const what = el("select", { "aria-label": "What the picture shows", onchange: () => (picked = what.value) });
  let picked = ""; // what the person chose; else it is the tab
  const said = el("p", { class: "hw-quiet hw-exported", role: "status" });
  const alt = el("textarea", { rows: 4, readOnly: true, hidden: true, "aria-label": "Alt text" });
  const action = (label, title, run) => el("button", { type: "button", title, onclick: () => tried(run) }, label);
  const element = el("details", { class: "hw-export" }, el("summary", {}, "Export"), el("div", { class: "hw-export-box", role: "group", "aria-label": "Export" },
    el("label", {}, "Picture of ", what),
    el("div", { class: "hw-export-row" },
      action("SVG", "Text stays text, lines stay lines", () => saved("svg")),
      action("PNG 2×", "For slides and screens", () => saved("png", 2)),
      action("PNG 300 dpi", "For print", () => saved("png", EXPORT_DPI / EXPORT_INCH)),
      action("Copy picture", "As PNG, to paste elsewhere", copied),
      action("Copy alt text", "A description for people who cannot see the picture", toldAlt)),
    said, alt));
  app.root.addEventListener("pointerdown", (event) => element.contains(event.target) || (element.open = false));
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !element.open) return;
    event.stopPropagation();
    element.open = false;
    element.querySelector("summary").focus();
  });

  async function tried(run) {
    said.textContent = "…";
    alt.hidden = true;
    try {
      said.textContent = await run();
    } catch (error) {
      said.textContent = `No picture: ${error.message}`;
    }
  }
  async function saved(kind, scale) {
    const sheet = await sheetNow(app, what.value);
    const [blob, used] = kind === "svg" ? [svgOf(sheet), 1] : await pngOf(sheet, scale);
    const name = `${sheet.name}.${kind}`;
    offerFile(blob, name);
    return used < scale ? `${name}, smaller than asked for: a browser draws no larger one` : name;
  }
  async function copied() {
    if (!navigator.clipboard?.write || !window.ClipboardItem) throw new Error("this browser copies no pictures here; save a PNG");
    const made = sheetNow(app, what.value).then((sheet) => pngOf(sheet, 2)).then(([blob]) => blob);
    await navigator.clipboard.write([new ClipboardItem({ "image/png": made })]);
    return "The picture is copied";
  }
  async function toldAlt() {
    const sheet = await sheetNow(app, what.value);
    alt.value = sheet.alt;
    alt.hidden = false;
    alt.select();
    try {
      await navigator.clipboard.writeText(sheet.alt);
      return "The alt text is copied";
    } catch {
      return "Copy the text below";
    }
  }

  function update(state, changed) {
    if (!changed.has("tab") && what.options.length) return;
    const choices = exportChoices(app, state);
    what.replaceChildren(...choices.map(([value, label]) => el("option", { value }, label)));
    what.value = choices.some(([value]) => value === picked) ? picked : choices[0]?.[0] ?? "";
    for (const button of element.querySelectorAll("button")) button.disabled = !choices.length;
  }
  return { name: "export", title: "Export", element, update };
}

const drawingPanel = (app, name) => (app.panels ?? []).find((panel) => panel.name === name && panel.figures);

/** What can be taken now: [[what, words], ...]. */
function exportChoices(app, state) {
  const tab = drawingPanel(app, state.tab), grid = drawingPanel(app, "grid"), found = [];
  if (tab) found.push(["tab", `this tab (${tab.title.toLowerCase()})`]);
  if (grid) found.push(["grid", "all heads"]);
  if (tab && grid) found.push(["whole", "all heads and this tab"]);
  for (const panel of app.panels ?? [])
    if (panel.figures && panel !== tab && panel !== grid && !panel.element.hidden) found.push([panel.name, panel.title.toLowerCase()]);
  return found;
}

/** The figures that are asked for ("tab", "grid", "whole" or a panel's name), on one sheet with a name for its file. */
async function sheetNow(app, what) {
  const state = app.store.get(), scene = app.scene();
  const names = { tab: [state.tab], grid: ["grid"], whole: ["grid", state.tab] }[what] ?? [what];
  const figures = (await Promise.all(names.map((name) => drawingPanel(app, name)?.figures(state) ?? []))).flat();
  if (!figures.length) throw new Error("there is nothing drawn here");
  const file = [scene.model, what === "grid" ? "" : state.head, what === "tab" ? state.tab : what === "whole" ? `grid-${state.tab}` : what];
  return { ...sheetOf(figures, { version: app.index.version ?? "" }), name: file.filter(Boolean).map(inFileName).join("-") };
}

const inFileName = (text) => text.replace(/[^\p{L}\p{N}._]+/gu, "-").replace(/^[-.]+|-+$/g, "") || "all";

/** The sheet as SVG. */
function svgOf(sheet) {
  const pen = new SvgPen(sheet.width, sheet.height);
  sheet.draw(pen, PRINT);
  return new Blob([pen.text(sheet.title, sheet.caption.join("\n"))], { type: "image/svg+xml" });
}

/** The sheet as PNG with so many dots for a unit of the page (fewer where browsers draw no more); [blob, dots used]. */
async function pngOf(sheet, scale) {
  const { width, height } = sheet;
  const used = Math.min(scale, EXPORT_SIDE / Math.max(width, height), Math.sqrt(EXPORT_AREA / (width * height)));
  const canvas = el("canvas");
  canvas.width = Math.round(width * used);
  canvas.height = Math.round(height * used);
  const pen = canvas.getContext("2d");
  pen.scale(used, used);
  sheet.draw(pen, PRINT);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  if (blob === null) throw new Error("the browser could not make it");
  const texts = { Title: sheet.title, Description: sheet.caption.join("\n"), Software: "headwise" };
  const bytes = withFacts(new Uint8Array(await blob.arrayBuffer()), texts, Math.round((used * EXPORT_INCH) / 0.0254));
  return [new Blob([bytes], { type: "image/png" }), used];
}

/** Hand a file to the person. */
function offerFile(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
