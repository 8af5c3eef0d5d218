// The labels of columns: turned, but Chinese, Japanese and Korean letters and emoji upright, one over the other.

const UPRIGHT = /^(?:[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]|\p{Script=Han}|\p{Extended_Pictographic}|[\s\u200d\ufe0f\u20e3]|\p{Emoji_Modifier}|\p{Regional_Indicator})+(?:·\d+)?$/u;
const UPRIGHT_STEP = 12; // units of the page from one letter to the next
const lettersCut = globalThis.Intl?.Segmenter ? new Intl.Segmenter() : null;

/** Whether a label stands upright, character under character, where others are turned. */
export const upright = (label) => UPRIGHT.test(label) && label.trim() !== "";

/** What a reader takes for letters: an emoji of several characters is one, and so is "·2" of a byte of a letter. */
function lettersOf(label) {
  const [, word, part] = label.trim().match(/^(.*?)(·\d+)?$/su);
  return [...(lettersCut ? Array.from(lettersCut.segment(word), (one) => one.segment) : word), ...(part ? [part] : [])];
}

/** How high an upright label is. */
export const uprightHeight = (label, step = UPRIGHT_STEP) => lettersOf(label).length * step;

/** Draw a label above a column, its foot at x, y: turned as it is given (`cut`), or upright as far as there is room. */
export function drawColumnLabel(pen, label, cut, x, foot, { room = Infinity, step = UPRIGHT_STEP } = {}) {
  if (upright(label)) {
    const letters = lettersOf(label).slice(0, Math.max(1, Math.floor(room / step)));
    pen.textAlign = "center";
    letters.forEach((letter, at) => pen.fillText(letter, x, foot - (letters.length - at - 0.5) * step));
    return;
  }
  pen.textAlign = "left";
  pen.save();
  pen.translate(x, foot);
  pen.rotate(-Math.PI / 2);
  pen.fillText(cut, 0, 0);
  pen.restore();
}
