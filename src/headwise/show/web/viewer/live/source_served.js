// The source of a served page. What is computed comes as lines of JSON: how far it is, then its result or error. A newer
// request of the same kind drops the older one, which the server then ends. Scenes are numbers here and unguessable
// names there; the tab remembers the names, so that what was looked at is there again after a reload.

const HELD = "headwise-scenes";

export function servedSource() {
  const names = [], told = [], running = new Map();
  let live = {};
  const source = {
    async index() {
      const index = await (await answered("api/index")).json();
      live = index.live;
      const wanted = new URLSearchParams(location.hash.replace(/^#/, "")).get("scene");
      for (const name of new Set([...rememberedNames(), ...(isName(wanted) ? [wanted] : [])])) {
        const found = await source.bring(name);
        if (found !== null) index.scenes.push(found.index); // else it was let go meanwhile
      }
      rememberNames(names);
      index.gone = Boolean(wanted) && source.numberOf(wanted) === undefined;
      return index;
    },
    /** The name of a scene, by which every page of this server can ask for it, and the number that it has here. */
    nameOf: (scene) => names[scene],
    numberOf: (name) => (names.includes(name) ? names.indexOf(name) : undefined),
    /** A scene of this name, {scene, index}; null where there is none any more. */
    async bring(name) {
      const index = await answered(`api/scene/${encodeURIComponent(name)}`).then((found) => found.json(), () => ({ error: "" }));
      if (index.error !== undefined) return null;
      names.push(name);
      told.push(index.told);
      rememberNames(names);
      return { scene: names.length - 1, index };
    },
    async chunk(scene, key) {
      if (!/[./]/.test(key) && !told[scene].includes(key)) // what blocks and neurons do is measured when it is first looked at
        return key === "fires" && live.fires ? deflated(await source.ask("fires", { scene })) : null;
      const path = `api/chunk/${names[scene]}/${key.split("/").map(encodeURIComponent).join("/")}`;
      try {
        return await bytesOf(path);
      } catch (error) {
        if (error.status === 400 || error.status === 404) return null;
        throw error;
      }
    },
    rows: (scene, head, from, to) => bytesOf(`api/rows/${names[scene]}/${encodeURIComponent(head)}?from=${from}&to=${to}`),
    /** `tell(done, total, says)` hears of progress; `says` is set where it cannot be counted. */
    async ask(what, body, tell = () => {}) {
      running.get(what)?.abort();
      const control = new AbortController();
      running.set(what, control);
      try {
        const asked = body.scene === undefined ? body : { ...body, scene: names[body.scene] };
        const result = await resultOf(`api/${what}`, asked, tell, control.signal);
        if (what !== "look") return result;
        names.push(result.scene);
        told.push(result.index.told);
        rememberNames(names);
        return { ...result, scene: names.length - 1 };
      } finally {
        if (running.get(what) === control) running.delete(what);
      }
    },
    /** Give up what is being computed of this kind. */
    drop: (what) => running.get(what)?.abort(),
  };
  return source;
}

/** JSON as the bytes of a chunk. */
async function deflated(value) {
  const stream = new Blob([JSON.stringify(value)]).stream().pipeThrough(new CompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function bytesOf(path) {
  const answer = await answered(path);
  if (answer.headers.get("Content-Type")?.includes("json")) throw new Error((await answer.json()).error); // it was let go
  return new Uint8Array(await answer.arrayBuffer());
}

const isName = (name) => /^[\w-]+$/.test(name ?? "");

async function resultOf(path, body, tell, signal) {
  const answer = await answered(path, { method: "POST", body: JSON.stringify(body), signal });
  let last = null;
  await linesOf(answer.body, (line) => {
    last = JSON.parse(line);
    if ("done" in last) tell(last.done, last.total, "");
    else if ("waiting" in last) tell(0, 0, `waiting: ${last.waiting === 1 ? "one computation is" : `${last.waiting} computations are`} before this`);
    else if ("doing" in last) tell(0, 0, last.doing);
  });
  if (last?.error !== undefined) throw new Error(last.error);
  if (last?.result === undefined) throw new Error("the server ended before it was done");
  return last.result;
}

async function linesOf(stream, hear) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let parts = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = value.split("\n");
    parts.push(lines[0]);
    for (const next of lines.slice(1)) {
      hear(parts.join(""));
      parts = [next];
    }
  }
}

/** The answer to a request, which must be one; else an error of one line, with the `status`. */
async function answered(path, given = {}) {
  const headers = {}, token = new URLSearchParams(location.search).get("token");
  if (token) headers["X-Headwise-Token"] = token;
  if (given.body) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { ...given, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the server does not answer; is headwise serve still running?");
  }
  if (answer.ok) return answer;
  const line = await answer.json().then((found) => found.error, () => `the server answered ${answer.status}`);
  throw Object.assign(new Error(line), { status: answer.status });
}

function rememberedNames() {
  try {
    const found = JSON.parse(sessionStorage.getItem(HELD) ?? "[]");
    return Array.isArray(found) ? found.filter(isName) : [];
  } catch {
    return []; // a browser that keeps nothing
  }
}

function rememberNames(names) {
  try {
    sessionStorage.setItem(HELD, JSON.stringify(names));
  } catch {
    // then a reload begins anew
  }
}
