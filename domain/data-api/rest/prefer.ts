import { DataError } from '#domain/data-api/errors.ts';

/** The preferences of a request in `Prefer` (RFC 7240), in PostgREST's words; undefined where it has none. */
export interface Preferences {
  readonly return: 'minimal' | 'headers-only' | 'representation' | undefined;
  readonly count: 'exact' | 'planned' | 'estimated' | undefined;
  readonly resolution: 'merge-duplicates' | 'ignore-duplicates' | undefined;
  readonly missing: 'default' | 'null' | undefined;
  readonly handling: 'strict' | 'lenient' | undefined;
  /** A name that JavaScript knows as a time zone; the server's own list decides. */
  readonly timezone: string | undefined;
  /** Counts only with `handling=strict`, as in PostgREST. */
  readonly maxAffected: number | undefined;
}

export type PreferenceName = keyof Preferences;

const choices: Readonly<Record<string, readonly string[]>> = {
  return: ['minimal', 'headers-only', 'representation'],
  count: ['exact', 'planned', 'estimated'],
  resolution: ['merge-duplicates', 'ignore-duplicates'],
  missing: ['default', 'null'],
  handling: ['strict', 'lenient'],
  // Every change is committed; to ask for that is no mistake.
  tx: ['commit'],
};

const isTimeZone = (name: string): boolean => {
  if (!/^[\w+/-]{1,64}$/.test(name)) return false;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
};

const isKnown = (name: string, value: string): boolean => {
  if (name === 'timezone') return isTimeZone(value);
  if (name === 'max-affected') return /^\d{1,9}$/.test(value);
  return Object.hasOwn(choices, name) && (choices[name]?.includes(value) ?? false);
};

const none: Preferences = {
  return: undefined,
  count: undefined,
  resolution: undefined,
  missing: undefined,
  handling: undefined,
  timezone: undefined,
  maxAffected: undefined,
};

const preferencesOf = (given: ReadonlyMap<string, string>): Preferences => {
  const choice = <N extends 'return' | 'count' | 'resolution' | 'missing' | 'handling'>(name: N): Preferences[N] =>
    given.get(name) as Preferences[N];
  const max = given.get('max-affected');
  return {
    return: choice('return'),
    count: choice('count'),
    resolution: choice('resolution'),
    missing: choice('missing'),
    handling: choice('handling'),
    timezone: given.get('timezone'),
    maxAffected: max === undefined ? undefined : Number(max),
  };
};

/**
 * Reads `Prefer`. Of a preference that is given twice the first counts (RFC 7240); what is not understood is ignored.
 * @throws {DataError} PGRST122 with `handling=strict` when something is not understood
 */
export const parsePreferences = (header: string): Preferences => {
  if (header === '') return none;
  const given = new Map<string, string>();
  const unknown: string[] = [];
  for (const part of header.split(',').map((text) => text.trim())) {
    const [name = '', value = ''] = part.split('=', 2).map((text) => text.trim().replaceAll('"', ''));
    const key = name.toLowerCase();
    if (!isKnown(key, value)) unknown.push(part);
    else if (!given.has(key)) given.set(key, value);
  }
  const bad = unknown.filter((part) => part !== '');
  if (given.get('handling') === 'strict' && bad.length > 0) {
    throw new DataError(400, 'PGRST122', 'Invalid preferences given with handling=strict', {
      details: `Invalid preferences: ${bad.join(', ')}`,
    });
  }
  return preferencesOf(given);
};

const headerNames: Readonly<Record<PreferenceName, string>> = {
  resolution: 'resolution',
  return: 'return',
  count: 'count',
  missing: 'missing',
  handling: 'handling',
  timezone: 'timezone',
  maxAffected: 'max-affected',
};

/** `Preference-Applied`: what was asked for among the preferences that mean something to this request. */
export const preferenceApplied = (preferences: Preferences, names: readonly PreferenceName[]): string =>
  (Object.keys(headerNames) as PreferenceName[])
    .filter((name) => names.includes(name) && preferences[name] !== undefined)
    .map((name) => `${headerNames[name]}=${preferences[name]}`)
    .join(', ');
