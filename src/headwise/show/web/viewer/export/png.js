// What a PNG says of itself: texts and the size it is printed at, put in after its head (PNG 1.2, chunks iTXt and pHYs).

const PNG_HEAD_END = 33; // the signature and the chunk IHDR

/** The bytes of a PNG with texts {Title: "...", ...} and dots for a metre. */
export function withFacts(bytes, texts, dotsPerMetre) {
  const parts = [pngChunk("pHYs", pngDots(dotsPerMetre)), ...Object.entries(texts).map(([name, text]) => pngChunk("iTXt", pngText(name, text)))];
  return pngJoined([bytes.subarray(0, PNG_HEAD_END), ...parts, bytes.subarray(PNG_HEAD_END)]);
}

function pngDots(dots) {
  const data = new DataView(new ArrayBuffer(9));
  data.setUint32(0, dots);
  data.setUint32(4, dots);
  data.setUint8(8, 1);
  return new Uint8Array(data.buffer);
}

/** Keyword, end, not deflated (two bytes), no language (end), no other keyword (end), UTF-8. */
const pngText = (name, text) => pngJoined([new TextEncoder().encode(name), new Uint8Array(5), new TextEncoder().encode(text)]);

function pngChunk(kind, data) {
  const named = pngJoined([new TextEncoder().encode(kind), data]), ends = new DataView(new ArrayBuffer(8));
  ends.setUint32(0, data.length);
  ends.setUint32(4, pngCheck(named));
  return pngJoined([new Uint8Array(ends.buffer, 0, 4), named, new Uint8Array(ends.buffer, 4, 4)]);
}

function pngJoined(parts) {
  const made = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    made.set(part, at);
    at += part.length;
  }
  return made;
}

/** The check sum that PNG asks for (CRC-32). */
function pngCheck(bytes) {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
  }
  return (sum ^ 0xffffffff) >>> 0;
}
