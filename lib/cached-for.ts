/**
 * Keeps what `load` answered for `ms`; those who ask meanwhile, or while it is being loaded, share it. A load that
 * fails is not kept.
 */
export const cachedFor = <T>(ms: number, load: () => Promise<T>): (() => Promise<T>) => {
  let present: { readonly value: Promise<T>; until: number } | undefined;
  return () => {
    if (present !== undefined && performance.now() < present.until) return present.value;
    // Until it has settled, everybody waits for the same one.
    const entry = { value: load(), until: Number.POSITIVE_INFINITY };
    present = entry;
    entry.value.then(
      () => (entry.until = performance.now() + ms),
      () => (entry.until = 0),
    );
    return entry.value;
  };
};
