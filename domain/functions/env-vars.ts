/* Variables of functions: sealed as one JSON text, merged by changes, and masked in answers. */
import { ServiceError } from '#lib/errors.ts';
import type { Sealer } from '#lib/secrets.ts';

export type EnvVars = Readonly<Record<string, string>>;

/** The placeholder of a value in answers; sent back, it keeps the value. */
export const maskedValue = '********';

const maxBytes = 128 * 1024;
/** A function may have so many of its own, and a project for all of them. Functions that had more keep them. */
export const maxVars = 200;

const about = (functionId: string): string => `function:${functionId}:env`;

export const openEnvVars = (sealer: Sealer, functionId: string, sealed: Buffer | null): EnvVars =>
  sealed === null ? {} : (JSON.parse(sealer.open(about(functionId), sealed)) as EnvVars);

const sealEnvVars = (sealer: Sealer, functionId: string, vars: EnvVars): Buffer | null =>
  Object.keys(vars).length === 0 ? null : sealer.seal(about(functionId), JSON.stringify(vars));

export const maskEnvVars = (vars: EnvVars): EnvVars =>
  Object.fromEntries(Object.keys(vars).map((name) => [name, maskedValue]));

/** A name and its value, as JSON.stringify writes them. */
const entry = /[{,]"(\w+)":"[^"\\]*(?:\\.[^"\\]*)*"/gy;

/**
 * The variables of a function in a list, masked: the first 200 by name only, and the others are not read. A hundred
 * functions of before that bound may have 1.6 million.
 */
export const listEnvVars = (sealer: Sealer, functionId: string, sealed: Buffer | null): EnvVars => {
  if (sealed === null) return {};
  const text = sealer.open(about(functionId), sealed);
  const first = text.matchAll(entry).take(maxVars);
  return Object.fromEntries(first.map(([, name = '']) => [name, maskedValue]));
};

const refuseVars = (name: readonly string[], message: string): ServiceError =>
  new ServiceError('validation_failed', 'The body is not valid.', {
    details: [{ path: ['env_vars', ...name].join('.'), message }],
  });

/**
 * Merges changes into variables: null deletes, a masked value keeps what is there.
 * @throws {ServiceError} `validation_failed` for a masked value of a new name, or more than 200 variables or 128 KB
 * altogether
 */
export const mergeVars = (present: EnvVars, changes: Readonly<Record<string, string | null>>): EnvVars => {
  const merged = new Map(Object.entries(present));
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) merged.delete(name);
    else if (value !== maskedValue) merged.set(name, value);
    else if (!merged.has(name)) throw refuseVars([name], 'is masked, and there is no value to keep');
  }
  if (merged.size > Math.max(maxVars, Object.keys(present).length)) throw refuseVars([], `are more than ${maxVars}`);
  const vars = Object.fromEntries(merged);
  if (JSON.stringify(vars).length > maxBytes) throw refuseVars([], `all together are larger than ${maxBytes} bytes`);
  return vars;
};

/**
 * Merges changes into the sealed variables of a function.
 * @throws {ServiceError} as `mergeVars`
 */
export const mergeEnvVars = (
  sealer: Sealer,
  functionId: string,
  sealed: Buffer | null,
  changes: Readonly<Record<string, string | null>>,
): Buffer | null => sealEnvVars(sealer, functionId, mergeVars(openEnvVars(sealer, functionId, sealed), changes));
