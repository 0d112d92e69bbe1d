import { nearest } from '#lib/nearest.ts';

/** A hint for an error that says that there is no such name. */
export const nearestHint = (wanted: string, names: readonly string[]): { readonly hint?: string } => {
  const name = nearest(wanted, names);
  return name === null ? {} : { hint: `Perhaps ${JSON.stringify(name)} was meant.` };
};
