// The tab of neurons: what each block adds at a token, layer by layer, and the neurons that fire there most.

import { el, isolated, share, short } from "../draw/dom.js";
import { measuringButton } from "../data/measuring.js";
import { penOn } from "../draw/paint.js";
import { addsFigure, addsPart, heatFigure, neuronsFigure, PARTS_SAID } from "./neurons_figures.js";

export function neuronsPanel(app) {
  const says = el("p", { class: "hw-neurons-says", role: "status", "aria-live": "polite" });
  const bar = el("div", { class: "hw-neurons-bar", role: "group", "aria-label": "What the map of layers and tokens shows" });
  const adds = shownFigure("What the blocks add at this token"), heat = shownFigure("What is added, by layer and token");
  const table = el("table", { class: "hw-neurons-table" }), why = el("p", { class: "hw-quiet" }), meaning = el("p", { class: "hw-quiet" });
  const found = el("div", { class: "hw-neurons-parts" },
    el("section", {}, el("h3", {}, "Added at this token, by layer"), adds.scroll),
    el("section", { class: "hw-neurons-heat" }, el("h3", {}, "Every layer and token"), bar, heat.scroll),
    el("section", { class: "hw-neurons-most" }, el("h3", {}, "Neurons that fire most here"), el("div", { class: "hw-reach-scroll", tabindex: 0 }, table), why), meaning);
  const none = el("div", { class: "hw-quiet" }, "");
  const element = el("section", { class: "hw-neurons", "aria-label": "Neurons" }, says, found, none);
  let held = { scene: null, told: null }, loading = null, part = "ffn";

  function shownFigure(label) {
    const canvas = el("canvas", { role: "img", "aria-label": label, tabindex: 0 });
    return { canvas, scroll: el("div", { class: "hw-reach-scroll" }, canvas) };
  }

  function load(scene) {
    held = { scene, told: null };
    none.replaceChildren(app.index.live?.fires ? "Measuring what blocks and neurons add…" : "Reading…");
    draw(app.store.get());
    return (loading = loaded(scene));
  }

  async function loaded(scene) {
    let told = null, wrong = "";
    try {
      told = await app.told("fires", scene); // a server measures it now
    } catch (error) {
      wrong = `Not measured: ${error.message}. `;
    }
    if (held.scene !== scene) return;
    held = { scene, told };
    if (told === null) none.replaceChildren(wrong, ...notHere(scene));
    draw(app.store.get());
  }

  function notHere(scene) {
    if (!app.index.live?.fires) return ["This page was made without its neurons: headwise look --html FILE --ffn adds them."];
    return [measuringButton(app, "fires", "Measure what blocks and neurons add", scene, (made) => {
      app.keep("fires", scene, made);
      if (held.scene === scene) load(scene);
    })];
  }

  /** What is shown now: a stream, its text, and one of its tokens. */
  function view(state) {
    const { told } = held, scene = app.scene(state.scene), of = app.streamOf(state.head).name === "encoder" ? "encoder" : "decoder";
    const stream = told.streams.find((one) => one.name === of) ?? told.streams[0] ?? null;
    const number = stream?.side ?? (app.streamOf(state.head).queries ?? 0), side = scene.sides[number];
    const word = state.unit === "words" && side.words.find(([, first, last]) => first <= state.query && state.query < last);
    const at = state.query !== null && word ? word[2] - 1 : state.query; // a word's last token knows the whole word
    const token = Math.min(at ?? side.tokens.length - 1, side.tokens.length - 1);
    return {
      stream, side, token, part: stream && stream[part] ? part : "ffn", labels: side.tokens.map(([label]) => label), neurons: told.neurons[number]?.[token] ?? [],
      facts: [scene.model, `Text: ${side.text.slice(0, 120)}${side.text.length > 120 ? "…" : ""}`],
    };
  }

  /** The pictures for a width of the screen, or of a sheet of paper, which has room for two. */
  function figuresOf(at, sheet = null) {
    const room = sheet ?? Math.max(280, element.clientWidth || 700), wide = sheet !== null || room >= 900 ? (room - 24) / 2 : room;
    const made = at.stream ? [addsFigure(at, Math.min(wide, 620)), heatFigure(at, Math.min(wide, 760))] : [];
    return at.neurons.length ? [...made, neuronsFigure(at, 640)] : made;
  }

  function draw(state) {
    none.hidden = held.told !== null;
    found.hidden = says.hidden = held.told === null;
    if (held.told === null) return;
    const at = view(state), colours = app.colours();
    says.textContent = sentence(at);
    bar.replaceChildren(...partButtons(at));
    const [first, second] = figuresOf(at);
    if (at.stream) for (const [figure, into] of [[first, adds], [second, heat]]) {
      figure.draw(penOn(into.canvas, figure.width, figure.height, colours), colours);
      into.canvas.figure = figure;
      into.canvas.setAttribute("aria-label", `${figure.title}. ${says.textContent}`);
    }
    fillNeurons(table, at.neurons);
    why.textContent = held.told.fires;
    meaning.textContent = [at.stream?.says, ...held.told.says.split("; ")].filter(Boolean).map((one) => `${one[0].toUpperCase()}${one.slice(1)}.`).join(" ");
  }

  function partButtons(at) {
    return ["attention", "cross", "ffn", "stream"].filter((name) => at.stream?.[name]).map((name) => el("button", {
      type: "button", "aria-pressed": String(name === at.part), onclick: () => { part = name; draw(app.store.get()); },
    }, PARTS_SAID[name]));
  }

  function point(event, keep) {
    const state = app.store.get();
    if (held.told === null || (state.pinned && !keep) || !heat.canvas.figure) return;
    const box = heat.canvas.getBoundingClientRect(), at = heat.canvas.figure.point(event.clientX - box.left, event.clientY - box.top);
    if (at === null) return;
    app.store.set({ query: at.token, ...(keep ? { pinned: true } : {}) });
  }
  heat.canvas.addEventListener("pointermove", (event) => point(event, false));
  heat.canvas.addEventListener("click", (event) => point(event, true));
  heat.canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined || held.told === null) return;
    event.preventDefault();
    event.stopPropagation();
    const { token, labels } = view(app.store.get());
    app.store.set({ query: Math.min(labels.length - 1, Math.max(0, token + step)), pinned: true });
  });

  /** The pictures, also of a tab that was never shown. */
  async function figures(state, width) {
    if (held.scene !== state.scene) load(state.scene);
    if (held.told === null) await loading;
    return held.told === null ? [] : figuresOf(view(state), width);
  }

  function update(state) {
    if (held.scene !== state.scene) load(state.scene);
    else draw(state);
  }
  return { name: "neurons", title: "Neurons", element, update, figures };
}

/** What stands out at a token, in a sentence. */
function sentence({ stream, token, labels }) {
  const name = `“${isolated(labels[token])}”`;
  if (!stream) return `${name} (${token}): what the blocks of this model add cannot be told.`;
  const most = (part) => stream.layers.reduce((best, _, l) => ((stream[part][l][token] ?? 0) > (stream[part][best][token] ?? 0) ? l : best), 0);
  const [a, f] = [most("attention"), most("ffn")];
  return `${name} (${token}): attention adds most in layer ${stream.layers[a]} (${short(stream.attention[a][token])}), the feed-forward network in layer ` +
    `${stream.layers[f]} (${short(stream.ffn[f][token])}); the stream is ${short(stream.stream[stream.layers.length - 1][token])} long at the end` +
    `, ${share(addsPart(stream, "ffn", stream.layers.length - 1, token))} of it from the last layer's network.`;
}

function fillNeurons(table, neurons) {
  const raises = neurons.some((one) => one[4].length), heads = ["neuron", "activation", "adds", "share", ...(raises ? ["raises"] : [])];
  const rows = neurons.map(([id, activation, adds, part, raised]) => {
    const bar = el("i", { class: part < 0 ? "hw-neurons-share hw-against" : "hw-neurons-share", "aria-hidden": "true" });
    bar.style.width = `${Math.min(1, Math.abs(part ?? 0)) * 4}rem`;
    return el("tr", {}, el("th", { scope: "row" }, id), el("td", {}, short(activation)), el("td", {}, short(adds)), el("td", { class: "hw-neurons-part" }, share(part), bar),
      raises ? el("td", { class: "hw-neurons-raises" }, raised.map((token) => el("span", { dir: "auto" }, token))) : null);
  });
  table.replaceChildren(el("caption", { class: "hw-unseen" }, "Neurons that fire most at this token"), el("thead", {}, el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, rows));
}
