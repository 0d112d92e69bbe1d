/** Edits (insert, delete, replace, swap neighbours aside) from one text to another, or `most` + 1 when there are more. */
const distance = (from: string, to: string, most: number): number => {
  if (Math.abs(from.length - to.length) > most) return most + 1;
  let previous = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const replaced = (previous[column - 1] ?? 0) + (from[row - 1] === to[column - 1] ? 0 : 1);
      current.push(Math.min(replaced, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[to.length] ?? most + 1;
};

const mostCompared = 2000;

/** The name that was probably meant; null when none is near. */
export const nearestName = (wanted: string, names: readonly string[]): string | null => {
  const most = Math.max(1, Math.min(3, Math.floor(wanted.length / 2)));
  let best: { name: string; edits: number } | null = null;
  for (const name of names.slice(0, mostCompared)) {
    const edits = distance(wanted.toLowerCase(), name.toLowerCase(), most);
    if (edits <= most && (best === null || edits < best.edits)) best = { name, edits };
  }
  return best?.name ?? null;
};

/** A hint for an error that says that there is no such name. */
export const nearestHint = (wanted: string, names: readonly string[]): { readonly hint?: string } => {
  const name = nearestName(wanted, names);
  return name === null ? {} : { hint: `Perhaps ${JSON.stringify(name)} was meant.` };
};
