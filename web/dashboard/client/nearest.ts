/** How many letters have to be put, taken or changed to make one of the other. */
const distance = (a: string, b: string): number => {
  let above = Array.from({ length: b.length + 1 }, (_, place) => place);
  for (const [row, letter] of a.split('').entries()) {
    const line = [row + 1];
    for (const [column, other] of b.split('').entries())
      line.push(
        Math.min(
          (above[column + 1] ?? 0) + 1,
          (line[column] ?? 0) + 1,
          (above[column] ?? 0) + (letter === other ? 0 : 1),
        ),
      );
    above = line;
  }
  return above.at(-1) ?? 0;
};

/** Names of a database have at most 63 bytes. */
const maxLength = 63;

/** The name that was probably meant: at most two letters differ, apart from upper and lower case; null: there is none. */
export const nearest = (name: string, names: readonly string[]): string | null => {
  const wanted = name.toLowerCase();
  const near = names
    .filter((known) => Math.abs(known.length - name.length) <= 2 && known.length <= maxLength)
    .map((known) => ({ known, away: distance(wanted, known.toLowerCase()) }))
    .filter(({ known, away }) => away <= Math.min(2, known.length - 1))
    .toSorted((a, b) => a.away - b.away);
  return near[0]?.known ?? null;
};
