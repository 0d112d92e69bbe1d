/** A line of a comparison: of both texts, of the old one only, or of the new one only. */
export interface DiffLine {
  readonly kind: 'same' | 'removed' | 'added';
  readonly text: string;
  /** Line numbers from 1 on; null on the side where the line is not. */
  readonly before: number | null;
  readonly after: number | null;
}

/** The table of a comparison has one number for each pair of lines; larger texts are shown as replaced as a whole. */
const maxPairs = 4_000_000;

const linesOf = (text: string): string[] => (text === '' ? [] : text.replace(/\n$/, '').split('\n'));

/** For each pair of places, how many lines the texts have in common from there on. */
const commonTails = (a: readonly string[], b: readonly string[]): Uint32Array => {
  const width = b.length + 1;
  const common = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const skip = Math.max(common[(i + 1) * width + j] ?? 0, common[i * width + j + 1] ?? 0);
      common[i * width + j] = a[i] === b[j] ? (common[(i + 1) * width + j + 1] ?? 0) + 1 : skip;
    }
  }
  return common;
};

const allOf = (kind: DiffLine['kind'], lines: readonly string[]): Pick<DiffLine, 'kind' | 'text'>[] =>
  lines.map((text) => ({ kind, text }));

const middle = (a: readonly string[], b: readonly string[]): Pick<DiffLine, 'kind' | 'text'>[] => {
  if (a.length * b.length > maxPairs) return [...allOf('removed', a), ...allOf('added', b)];
  const [common, width] = [commonTails(a, b), b.length + 1];
  const lines: Pick<DiffLine, 'kind' | 'text'>[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      lines.push({ kind: 'same', text: a[i] ?? '' });
      [i, j] = [i + 1, j + 1];
    } else if ((common[(i + 1) * width + j] ?? 0) >= (common[i * width + j + 1] ?? 0)) {
      lines.push({ kind: 'removed', text: a[i] ?? '' });
      i += 1;
    } else {
      lines.push({ kind: 'added', text: b[j] ?? '' });
      j += 1;
    }
  }
  return [...lines, ...allOf('removed', a.slice(i)), ...allOf('added', b.slice(j))];
};

const sameAtBeginning = (a: readonly string[], b: readonly string[]): number => {
  const found = a.findIndex((line, place) => line !== b[place]);
  return found === -1 ? Math.min(a.length, b.length) : found;
};

/** Compares two texts line by line: the fewest lines removed and added. */
export const diffOf = (before: string, after: string): DiffLine[] => {
  const [a, b] = [linesOf(before), linesOf(after)];
  const start = sameAtBeginning(a, b);
  const end = sameAtBeginning(a.slice(start).toReversed(), b.slice(start).toReversed());
  const lines = [
    ...allOf('same', a.slice(0, start)),
    ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...allOf('same', a.slice(a.length - end)),
  ];
  let [left, right] = [0, 0];
  return lines.map((line) => ({
    ...line,
    before: line.kind === 'added' ? null : (left += 1),
    after: line.kind === 'removed' ? null : (right += 1),
  }));
};

/** The changed lines with some lines around them; null stands for lines that are left out. */
export const withContext = (lines: readonly DiffLine[], around = 3): (DiffLine | null)[] => {
  const near = new Set<number>();
  for (const [place, { kind }] of lines.entries())
    if (kind !== 'same') for (let at = place - around; at <= place + around; at += 1) near.add(at);
  const shown: (DiffLine | null)[] = [];
  for (const [place, line] of lines.entries()) {
    if (near.has(place)) shown.push(line);
    else if (shown.at(-1) !== null) shown.push(null);
  }
  return shown;
};
