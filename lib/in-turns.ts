import { setImmediate as nextTurn } from 'node:timers/promises';

/** The process answers others after so many milliseconds. */
const sliceMs = 5;

/** A pause in long work: the process answers others, where the work has gone on for 5 ms since it last did. */
export const createPause = (): (() => Promise<void>) => {
  let began = performance.now();
  return async () => {
    if (performance.now() - began < sliceMs) return;
    await nextTurn();
    began = performance.now();
  };
};

/** Makes something of each value, a few at a time: of thousands the process answers others in between. */
export const mapInTurns = async <Value, Made>(
  values: Iterable<Value>,
  make: (value: Value) => Made,
): Promise<Made[]> => {
  const pause = createPause();
  const made: Made[] = [];
  for (const value of values) {
    made.push(make(value));
    await pause();
  }
  return made;
};
