import { timingsOf } from '#domain/functions/run-report.ts';
import type { BaseCall } from '../call.ts';
import { RawReply } from '../endpoint.ts';

const names = ['queue', 'start', 'db', 'fetch', 'cpu'] as const;

/** Where the time of a run went, as browsers and tools read it. Not for callers who may not know what a function does. */
export const setServerTiming = (answer: string, { setHeader }: Pick<BaseCall, 'setHeader'>): void => {
  const timings = timingsOf(answer);
  if (timings === null) return;
  setHeader('Server-Timing', names.map((name) => `${name};dur=${timings[name]}`).join(', '));
};

/** An invoke answer with that header. */
export const timedReply = (answer: string, call: Pick<BaseCall, 'setHeader'>): RawReply => {
  setServerTiming(answer, call);
  return new RawReply(answer);
};
