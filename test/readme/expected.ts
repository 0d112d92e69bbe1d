/** Compares an answer with what a document shows of it. `…` in a shown text stands for anything. */

const anything = '…';

const patternOf = (shown: string): RegExp =>
  new RegExp(
    `^${shown
      .split(anything)
      .map((text) => RegExp.escape(text))
      .join('[\\s\\S]*')}$`,
  );

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

/** Each place where the two differ, in words; none when the document tells the truth. */
export const differences = (shown: unknown, got: unknown, place = 'the answer'): string[] => {
  if (shown === anything) return got === undefined ? [`${place} is missing`] : [];
  if (typeof shown === 'string') {
    const fits = typeof got === 'string' && patternOf(shown).test(got);
    return fits ? [] : [`${place} is ${JSON.stringify(got)}, not ${JSON.stringify(shown)}`];
  }
  if (!isObject(shown) || !isObject(got)) {
    return shown === got ? [] : [`${place} is ${JSON.stringify(got)}, not ${JSON.stringify(shown)}`];
  }
  const names = new Set([...Object.keys(shown), ...Object.keys(got)]);
  return [...names].flatMap((name) =>
    name in shown
      ? differences(shown[name], got[name], `${place}.${name}`)
      : [`${place}.${name} is there, but not shown`],
  );
};
