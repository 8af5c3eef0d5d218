// The foot of the Cut view: a plan saved as a file, read from one, and the command that cuts it for good.

import { el, isolated, plural } from "../draw/dom.js";
import { shortened } from "../shell/header.js";
import { planFile, planText, pruneLine, readPlan } from "./plan.js";
import { asLine } from "../live/live.js";

export function planPart(app, change, plan) {
  const save = el("button", { type: "button", onclick: () => savePlan(app.scene(), plan()) }, "Save the plan");
  const pick = el("input", { type: "file", accept: ".txt,.json,text/plain", hidden: true });
  const read = el("button", { type: "button", onclick: () => pick.click() }, "Open a plan");
  const line = el("code"), copy = el("button", { type: "button", onclick: () => copyLine(line.textContent, copy) }, "Copy");
  const command = el("p", { class: "hw-cut-command" }, el("span", { class: "hw-quiet" }, "Then cut them for good: "), line, " ", copy);
  const said = el("p", { class: "hw-quiet", role: "status" }), why = el("span", { class: "hw-quiet" });
  pick.addEventListener("change", async () => {
    said.textContent = await openPlan(app.scene(), pick.files[0], change);
    pick.value = "";
  });
  const element = el("div", { class: "hw-cut-plan" }, el("div", {}, save, " ", read, pick, " ", why), command, said);
  return { element, update: () => {
    const model = app.scene().model, off = Object.values(plan()).some((factor) => factor === 0);
    save.disabled = !off;
    why.textContent = whyNoPlan(plan());
    command.hidden = !off;
    line.textContent = pruneLine(app.scene().source ?? model, planFile(model));
  } };
}

/** Why there is no plan to save; "" where there is one. */
function whyNoPlan(heads) {
  const factors = Object.values(heads);
  if (factors.includes(0)) return "";
  return factors.length ? "No head is off: a plan cuts heads, and one that is only halved cannot be cut. Turn it off to save it."
    : "Turn heads off, and they can be saved as a plan.";
}

function savePlan(scene, heads) {
  const url = URL.createObjectURL(new Blob([planText(heads, scene, shortened(scene.text, 80))], { type: "text/plain" }));
  el("a", { href: url, download: planFile(scene.model) }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Put the plan of a file in force; what is said of it. */
async function openPlan(scene, file, change) {
  try {
    const { heads, missing } = readPlan(await file.text(), scene);
    if (!Object.keys(heads).length) return `No head of ${scene.model} is named in ${isolated(file.name)}.`;
    change(heads);
    const left = missing.length ? `; this model does not have ${missing.slice(0, 5).join(", ")}` : "";
    return `${plural(Object.keys(heads).length, "head")} of ${isolated(file.name)}${left}.`;
  } catch (error) {
    return asLine(new Error(`${file.name} cannot be read: ${error.message}`));
  }
}

async function copyLine(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it and copy";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}
