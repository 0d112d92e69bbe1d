import { hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { beginAnswer, evaluate } from './evaluate.ts';
import type { EvaluationContext, Outcome } from './compile.ts';
import type { FlagSet } from './flag-sets.ts';

/** Answers of the OpenFeature Remote Evaluation Protocol 0.3. */

/** The protocol has no others for an evaluation that went well. */
const ownReasons: ReadonlySet<string> = new Set(['STATIC', 'TARGETING_MATCH', 'SPLIT', 'DISABLED']);

/** A disabled flag, and one without a value, leave it out: the client takes its default. */
const shapeOf = ({ key, value, reason, variant }: Outcome) => ({
  key,
  ...(reason !== 'DISABLED' && value !== null && { value }),
  reason: ownReasons.has(reason) ? reason : 'UNKNOWN',
  ...(variant !== null && { variant }),
  ...(!ownReasons.has(reason) && { metadata: { reason } }),
});

const texts = new WeakMap<Outcome, string>();

/** JSON text of a result; each is written once. */
const outcomeText = (outcome: Outcome): string => {
  const known = texts.get(outcome);
  if (known !== undefined) return known;
  const text = JSON.stringify(shapeOf(outcome));
  texts.set(outcome, text);
  return text;
};

/** While the flags may be outdated, the answer says so. */
export const singleText = (outcome: Outcome, isStale: boolean): string => {
  if (!isStale) return outcomeText(outcome);
  const shape = shapeOf(outcome);
  return JSON.stringify({ ...shape, metadata: { ...shape.metadata, stale: true } });
};

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
