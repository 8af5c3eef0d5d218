// A plan: which heads are turned down, and by how much. It is kept as a file that `headwise prune --heads` reads.

import { share } from "../draw/dom.js";

/** A range of heads, as cut/selecting.py reads them: 18.6, 18, 18.*, *.2, cross.0.2, 18.0-3. */
const FORM = /^(?:([A-Za-z_]\w*)\.)?(\*|\d+(?:-\d+)?)(?:\.(\*|\d+(?:-\d+)?))?$/;
const ALSO = /^#\s*(\S+) at ([\d.]+)/; // a head that is turned down, which a cut leaves alone

/** The file: heads that are off, one a line; what is only turned down stands in remarks. */
export function planText(heads, scene, about) {
  const off = Object.keys(heads).filter((id) => heads[id] === 0), down = Object.keys(heads).filter((id) => heads[id] > 0);
  return [
    `# heads of ${scene.model} to cut, chosen on: ${about}`, ...off,
    ...down.map((id) => `# ${id} at ${share(heads[id])} (turned down, not cut)`), "",
  ].join("\n");
}

/** The heads of a file, those that this model has: {heads: {id: factor}, missing: [what it does not have]}. */
export function readPlan(text, scene) {
  const heads = {}, missing = [], ids = Object.keys(scene.heads);
  for (const [name, factor] of namedIn(text)) {
    const found = ids.filter(meant(name));
    if (!found.length) missing.push(name);
    for (const id of found) heads[id] = factor;
  }
  return { heads, missing };
}

/** What is named in a file, and how much of it is left. */
function namedIn(text) {
  if (text.trimStart().startsWith("[")) return JSON.parse(text).map((name) => [String(name), 0]);
  return text.split(/\r?\n/).flatMap((line) => {
    const also = ALSO.exec(line.trim());
    if (also !== null) return [[also[1], Math.min(1, Number(also[2]))]].filter(([, factor]) => factor < 1);
    return line.replace(/#.*/, "").split(/[\s,]+/).filter(Boolean).map((name) => [name, 0]);
  });
}

function meant(name) {
  const parts = FORM.exec(name);
  if (parts === null) return () => false;
  const [, stream, layer, head = "*"] = parts;
  return (id) => {
    const own = id.split("."), of = own.slice(0, -2).join(".");
    return inSpan(own.at(-2), layer) && inSpan(own.at(-1), head) && (of === (stream ?? "") || (stream === undefined && layer === "*"));
  };
}

function inSpan(number, span) {
  if (span === "*") return true;
  const [first, last = first] = span.split("-").map(Number);
  return first <= Number(number) && Number(number) <= last;
}

/** The line that cuts these heads for good, as a shell takes it. */
export function pruneLine(model, file) {
  return `headwise prune ${quoted(model)} --heads @${quoted(file)} -o smaller/`;
}

const quoted = (word) => (/^[\w./@:+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** A name for the file of a model's plan. */
export const planFile = (model) => `${model.split(/[\\/]/).pop().replace(/[^\w.-]+/g, "_") || "model"}-plan.txt`;

/** Plans with their past: `now`, `set` (a new step), `undo`, `redo`. */
export function makePast() {
  let steps = [{}], at = 0;
  return {
    now: () => steps[at],
    set(heads) {
      const plain = Object.fromEntries(Object.entries(heads).filter(([, factor]) => factor !== 1));
      if (samePlan(plain, steps[at])) return;
      steps = [...steps.slice(0, at + 1), plain];
      at = steps.length - 1;
    },
    undo: () => (at > 0 ? Boolean(at--) : false),
    redo: () => (at < steps.length - 1 ? Boolean(++at) : false),
    canUndo: () => at > 0,
    canRedo: () => at < steps.length - 1,
  };
}

const samePlan = (a, b) => Object.keys(a).length === Object.keys(b).length && Object.keys(a).every((id) => a[id] === b[id]);
