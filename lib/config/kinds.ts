import { z } from 'zod';

/** One setting as `plinth.env.example` shows it. The schema holds the default and the bounds. */
export interface SettingNote {
  readonly meaning: string;
  readonly unit?: string;
}

export const wholeNumber = (min: number, max: number) => {
  const error = `must be a whole number from ${min} to ${max}`;
  return z.coerce.number({ error }).int({ error }).min(min, { error }).max(max, { error });
};

export const integer = (fallback: number, min: number, max: number) => wholeNumber(min, max).default(fallback);
const ratioFault = { error: 'must be a number from 0 to 1' };
export const ratio = z.coerce.number(ratioFault).min(0, ratioFault).max(1, ratioFault);
/** Not set: no limit of its own. */
export const globalLimit = wholeNumber(1, 1_000_000).optional();
/** One of some words. */
export const oneOf = <const Words extends readonly [string, ...string[]]>(words: Words) =>
  z.enum(words, { error: `must be ${words.join(' or ')}` });
export const onOff = (fallback: 'on' | 'off') => oneOf(['on', 'off']).default(fallback);
export const url = (...schemes: string[]) =>
  z.string().refine((text) => URL.canParse(text) && schemes.includes(new URL(text).protocol.slice(0, -1)), {
    error: `must be a URL that begins with ${schemes.map((scheme) => `${scheme}://`).join(' or ')}`,
  });
export const note = <T extends z.ZodType>(schema: T, meaning: string, unit?: string): T =>
  schema.meta({ meaning, ...(unit && { unit }) } satisfies SettingNote & Record<string, unknown>);

export const mib = 1024 * 1024;
