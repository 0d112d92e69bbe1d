type Fields = Readonly<Record<string, unknown>>;

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * The fields that differ from what is there, so that a change names nothing else.
 * @param merged fields whose parts the API merges
 */
export const changedPart = <T extends object>(
  change: T,
  base: object,
  merged: readonly (keyof T)[] = [],
): Partial<T> => {
  const known = base as Fields;
  const changed = Object.entries(change).flatMap(([name, value]): [string, unknown][] => {
    const before = known[name];
    if (JSON.stringify(value) === JSON.stringify(before)) return [];
    const isMerged = merged.includes(name as keyof T) && isFields(value) && isFields(before);
    return [[name, isMerged ? changedPart(value, before) : value]];
  });
  return Object.fromEntries(changed) as Partial<T>;
};
