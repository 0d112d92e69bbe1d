/** Runs work under a name, such as a project's id. @throws what `refusal` makes when too much runs under it already */
export type ConcurrencyLimit = <T>(name: string, work: () => Promise<T>) => Promise<T>;

/** At most `max` works of one name run at a time in this process; a further one is refused and does not wait. */
export const createConcurrencyLimit = (max: number, refusal: () => Error): ConcurrencyLimit => {
  const running = new Map<string, number>();
  return async (name, work) => {
    const present = running.get(name) ?? 0;
    if (present >= max) throw refusal();
    running.set(name, present + 1);
    try {
      return await work();
    } finally {
      const left = (running.get(name) ?? 1) - 1;
      if (left === 0) running.delete(name);
      else running.set(name, left);
    }
  };
};
