import { hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { beginAnswer, evaluate } from './evaluate.ts';
import type { EvaluationContext, Outcome } from './compile.ts';
import type { FlagSet } from './flag-sets.ts';

/** Answers of the OpenFeature Remote Evaluation Protocol 0.3. */

/** The protocol has no others for an evaluation that went well. */
const ownReasons: ReadonlySet<string> = new Set(['STATIC', 'TARGETING_MATCH', 'SPLIT', 'DISABLED']);

const texts = new WeakMap<Outcome, string>();
const valueTexts = new WeakMap<object, string>();

/** Longer texts are put together for each answer: a rule of 15 bytes has a result, with the value of its flag. */
const maxKeptLength = 256;

/** The text of an object is kept with it: rules without values of their own share that of their flag. */
const valueText = (value: unknown): string => {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const text = valueTexts.get(value) ?? JSON.stringify(value);
  valueTexts.set(value, text);
  return text;
};

/** A disabled flag, and one without a value, leave it out: the client takes its default. */
const write = ({ key, value, reason, variant }: Outcome, isStale: boolean): string => {
  const isOwn = ownReasons.has(reason);
  const rest = {
    reason: isOwn ? reason : 'UNKNOWN',
    ...(variant !== null && { variant }),
    ...((!isOwn || isStale) && { metadata: { ...(!isOwn && { reason }), ...(isStale && { stale: true }) } }),
  };
  const own = reason !== 'DISABLED' && value !== null ? `"value":${valueText(value)},` : '';
  return `{"key":${JSON.stringify(key)},${own}${JSON.stringify(rest).slice(1)}`;
};

/** JSON text of a result; a short one is written once. */
const outcomeText = (outcome: Outcome): string => {
  const known = texts.get(outcome);
  if (known !== undefined) return known;
  const text = write(outcome, false);
  if (text.length <= maxKeptLength) texts.set(outcome, text);
  return text;
};

/** While the flags may be outdated, the answer says so. */
export const singleText = (outcome: Outcome, isStale: boolean): string =>
  isStale ? write(outcome, true) : outcomeText(outcome);

const sliceMs = 5;

/** All flags for one context, out of one set: a change meanwhile is in the next answer. Gives way to others each 5 ms. */
export const evaluateAll = async (set: FlagSet, context: EvaluationContext): Promise<Outcome[]> => {
  const progress = beginAnswer();
  const outcomes: Outcome[] = [];
  let until = performance.now() + sliceMs;
  for (const flag of set.flags.values()) {
    outcomes.push(evaluate(set, flag, context, progress));
    if (performance.now() < until) continue;
    await nextTurn();
    until = performance.now() + sliceMs;
  }
  return outcomes;
};

/** The tag of an answer for all flags: another one as soon as the flags or the context differ. */
export const etagOf = (set: FlagSet, context: Buffer): string => `"${set.etag}-${hash('sha1', context, 'base64url')}"`;

/** Whether a header If-None-Match names a tag; weak ones count, too. */
export const isNamed = (header: string, etag: string): boolean =>
  header !== '' && (header === etag || header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag));

/** JSON text of an answer for all flags. */
export const bulkText = (
  set: FlagSet,
  outcomes: readonly Outcome[],
  { isStale, streamUrl }: { readonly isStale: boolean; readonly streamUrl: string },
): string => {
  const metadata = { environment: set.environment, version: set.version, ...(isStale && { stale: true }) };
  const streams = JSON.stringify([{ type: 'sse', url: streamUrl, inactivityDelaySec: 120 }]);
  const flags = outcomes.map(outcomeText).join(',');
  return `{"flags":[${flags}],"metadata":${JSON.stringify(metadata)},"eventStreams":${streams}}`;
};

/** The message to listeners when the flags of an environment were changed. */
export const changeText = ({ etag, version }: FlagSet): string =>
  `id: ${version}\ndata: ${JSON.stringify({ type: 'refetchEvaluation', etag })}\n\n`;
