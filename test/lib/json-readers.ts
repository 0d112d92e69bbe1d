import type { Reader } from '#lib/json-thread.ts';

/** Readers that tests have run in the thread. */

export const numbers: Reader = (text, args) => {
  const value = Float64Array.from(JSON.parse(text) as number[], (one) => one * (args as number));
  return { value, transfer: [value.buffer] };
};

export const forever: Reader = () => {
  for (;;);
};

export const broken: Reader = () => {
  throw new Error('it broke');
};
