// Where a head stands among all heads of a scene, by each number they can be coloured by.

/** The ranks of a colouring with numbers: head -> its place, 1 = highest; equal numbers share one. */
export function ranksOf(colouring) {
  if (colouring.ranks) return colouring.ranks;
  const sorted = Object.entries(colouring.values).filter(([, value]) => Number.isFinite(value)).sort((a, b) => b[1] - a[1]);
  const ranks = new Map();
  sorted.forEach(([head, value], i) => ranks.set(head, i && sorted[i - 1][1] === value ? ranks.get(sorted[i - 1][0]) : i + 1));
  return (colouring.ranks = ranks);
}

/** A head's place in words: "14th", "=3rd" where others share it, "all equal". */
export function placeWords(ranks, head) {
  const place = ranks.get(head), alike = [...ranks.values()].filter((other) => other === place).length;
  if (alike === ranks.size && alike > 1) return "all equal";
  return `${alike > 1 ? "=" : ""}${ordinal(place)}`;
}

/** 1st, 2nd, 3rd, 4th, ... */
export function ordinal(n) {
  const ending = n % 100 >= 11 && n % 100 <= 13 ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th");
  return `${n.toLocaleString("en")}${ending}`;
}
