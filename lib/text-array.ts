const textOid = 25;
const headerBytes = 20;
const lengthBytes = 4;

/**
 * A parameter of type `text[]` in PostgreSQL's binary form. As a literal every quote and backslash of it would be
 * escaped: a log of 600 KB took 4 to 14 ms of the event loop, in which nothing else ran; copied it takes 0.3 ms.
 * @param values null becomes NULL
 */
export const textArray = (values: readonly (string | null)[]): Buffer => {
  const lengths = values.map((value) => (value === null ? null : Buffer.byteLength(value)));
  const total = lengths.reduce<number>((sum, length) => sum + lengthBytes + (length ?? 0), headerBytes);
  const bytes = Buffer.allocUnsafe(total);
  // Dimensions, whether there are NULLs, the type of the elements, their number, the index of the first.
  const header = [1, lengths.includes(null) ? 1 : 0, textOid, values.length, 1];
  let end = header.reduce((at, field) => bytes.writeInt32BE(field, at), 0);
  values.forEach((value, place) => {
    end = bytes.writeInt32BE(lengths[place] ?? -1, end);
    if (value !== null) end += bytes.write(value, end);
  });
  return bytes;
};
