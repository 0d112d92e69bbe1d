/** One call of what is measured. Rejects when its answer is wrong: a figure over failures says nothing. */
export type Call = () => Promise<void>;

/** How long each of these calls took, one after the other, in ms. */
export const oneByOne = async (times: number, call: Call): Promise<number[]> => {
  const took: number[] = [];
  for (let i = 0; i < times; i += 1) {
    const began = performance.now();
    await call();
    took.push(performance.now() - began);
  }
  return took;
};

/** Calls per second with so many callers over so long. */
export const rateOf = async (callers: number, forMs: number, call: Call): Promise<number> => {
  const began = performance.now();
  let calls = 0;
  const caller = async (): Promise<void> => {
    while (performance.now() - began < forMs) {
      await call();
      calls += 1;
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return (calls * 1000) / (performance.now() - began);
};

/** @throws {Error} when it is another text */
export const expectAnswer = (answer: string | null, expected: string, why = ''): void => {
  if (answer?.replaceAll(/\s/g, '') !== expected) throw new Error(`answered ${answer} in place of ${expected} ${why}`);
};
