// Where a viewer's data comes from. A source has
//   index(): the scenes, and what can be asked live;
//   chunk(scene, key): the bytes of one head's cells, or of more (deflated, as they were made);
//   rows(scene, head, from, to): all cells of some rows (deflated), where `index.live.rows` says so;
//   ask(what, body, tell): anything else that is live; `tell(done, total)` hears of its progress.
// A file holds all of its chunks and answers nothing live.

/** The source of a page in one file: JSON and base64 in script elements. */
export function fileSource(document) {
  const held = new Map();
  for (const element of document.querySelectorAll("script[data-chunk]")) held.set(element.dataset.chunk, element);
  return {
    index: async () => JSON.parse(document.getElementById("index").textContent),
    async chunk(scene, key) {
      const element = held.get(`${scene}/${key}`);
      if (element === undefined) return null;
      try {
        return fromBase64(element.textContent.trim());
      } catch {
        throw new Error(`the bytes of ${key} cannot be read; the file may be damaged`);
      }
    },
  };
}

/** Bytes of a base64 text. */
export function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const plain = atob(text), bytes = new Uint8Array(plain.length);
  for (let i = 0; i < plain.length; i++) bytes[i] = plain.charCodeAt(i);
  return bytes;
}

/** What Python's zlib.compress made small. */
export async function inflate(bytes) {
  const { readable, writable } = new DecompressionStream("deflate"), writer = writable.getWriter();
  for (const done of [writer.write(bytes), writer.close()]) done.catch(() => {}); // what is damaged is told by reading
  return new Uint8Array(await new Response(readable).arrayBuffer());
}

/** Remembers what was made lately, up to a size; `make` may be asynchronous. */
export function remembering(make, most = 64e6) {
  const held = new Map();
  let size = 0;
  const take = (key) => {
    const entry = held.get(key);
    if (entry === undefined) return undefined;
    held.delete(key);
    held.set(key, entry);
    return entry;
  };
  return {
    /** Keep what was made elsewhere. */
    put: (key, value) => held.set(key, { promise: Promise.resolve(value), value, bytes: 0 }),
    /** What is known of this key already, else undefined. */
    known: (key) => take(key)?.value,
    async get(key) {
      const entry = take(key);
      if (entry !== undefined) return entry.promise;
      const fresh = { promise: make(key), value: undefined, bytes: 0 };
      held.set(key, fresh);
      try {
        fresh.value = await fresh.promise;
      } catch (error) {
        held.delete(key);
        throw error;
      }
      fresh.bytes = fresh.value?.bytes ?? 0;
      size += fresh.bytes;
      for (const [old, other] of held) {
        if (size <= most || old === key) break;
        held.delete(old);
        size -= other.bytes;
      }
      return fresh.value;
    },
  };
}
