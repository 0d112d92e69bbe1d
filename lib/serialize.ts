/** Runs work under a name; works of the same name go one after the other, whether they fail or not. */
export type Serialize = <T>(name: string, work: () => Promise<T>) => Promise<T>;

export const createSerializer = (): Serialize => {
  const latest = new Map<string, Promise<unknown>>();
  return async (name, work) => {
    const before = latest.get(name) ?? Promise.resolve();
    const mine = before.catch(() => undefined).then(work);
    latest.set(name, mine);
    try {
      return await mine;
    } finally {
      if (latest.get(name) === mine) latest.delete(name);
    }
  };
};
