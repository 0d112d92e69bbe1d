/** Names of the server have at most 63 bytes: what is much longer is near to none of them. */
const maxNameLength = 80;

/** In pairs of letters, of all candidates together: some 8 ms. 5,000 ids of 78 letters each took 450 ms. */
const maxPairs = 500_000;

const cheapest = (above: number, left: number, corner: number): number => Math.min(above + 1, left + 1, corner);

/** How many letters have to be put, taken or changed to make one of the other. */
export const distance = (a: string, b: string): number => {
  let above = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 0; row < a.length; row += 1) {
    const line = [row + 1];
    for (let column = 0; column < b.length; column += 1) {
      const changed = (above[column] ?? 0) + (a[row] === b[column] ? 0 : 1);
      line.push(cheapest(above[column + 1] ?? 0, line[column] ?? 0, changed));
    }
    above = line;
  }
  return above[b.length] ?? 0;
};

/**
 * The name that was probably meant: what differs in at most a third of its letters, two in any case, apart from upper
 * and lower case.
 * @returns null when nothing is near among those that can be compared in some milliseconds
 */
export const nearest = (name: string, candidates: Iterable<string>): string | null => {
  if (name.length > maxNameLength) return null;
  const wanted = name.toLowerCase();
  let best: { readonly name: string; readonly away: number } | null = null;
  let pairs = 0;
  for (const candidate of candidates) {
    const limit = Math.min(Math.max(2, Math.floor(wanted.length / 3)), wanted.length - 1, candidate.length - 1);
    if (Math.abs(candidate.length - wanted.length) > Math.max(limit, 0)) continue;
    pairs += wanted.length * candidate.length;
    if (pairs > maxPairs) break;
    const away = distance(wanted, candidate.toLowerCase());
    if (away <= Math.max(limit, 0) && (best === null || away < best.away)) best = { name: candidate, away };
  }
  return best?.name ?? null;
};
