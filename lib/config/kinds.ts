import { z } from 'zod';

/** One setting as `plinth.env.example` shows it. The schema holds the default and the bounds. */
export interface SettingNote {
  readonly meaning: string;
  readonly unit?: string;
}

export const integer = (fallback: number, least: number, most: number) =>
  z.coerce.number().int().min(least).max(most).default(fallback);
/** Not set: no limit of its own. */
export const globalLimit = z.coerce.number().int().min(1).max(1_000_000).optional();
export const onOff = (fallback: 'on' | 'off') => z.enum(['on', 'off']).default(fallback);
export const url = (...schemes: string[]) =>
  z.string().refine((text) => URL.canParse(text) && schemes.includes(new URL(text).protocol.slice(0, -1)), {
    error: `must be a URL that begins with ${schemes.map((scheme) => `${scheme}://`).join(' or ')}`,
  });
export const note = <T extends z.ZodType>(schema: T, meaning: string, unit?: string): T =>
  schema.meta({ meaning, ...(unit && { unit }) } satisfies SettingNote & Record<string, unknown>);

export const mib = 1024 * 1024;
