/** The preferences of RFC 7240 that endpoints with jobs honour. */
export interface Preferences {
  /** How long to wait for the job's end before answering 202. */
  readonly waitMs: number;
  /** For `Preference-Applied`; empty when none was given. */
  readonly applied: string;
}

const defaultWaitSeconds = 30;
const mostWaitSeconds = 60;

/**
 * `respond-async`: answer at once. `wait=N`: wait N seconds, more than 60 counts as 60. Both: wait, then answer 202.
 * What is not understood is ignored, as the RFC asks.
 */
export const parsePrefer = (header: string): Preferences => {
  const given = header.split(',').map((part) => part.trim().toLowerCase());
  const async = given.includes('respond-async');
  const wait = given.map((part) => /^wait *= *"?(\d{1,9})"?$/.exec(part)?.[1]).find((value) => value !== undefined);
  const seconds = wait === undefined ? (async ? 0 : defaultWaitSeconds) : Math.min(Number(wait), mostWaitSeconds);
  const applied = [async ? 'respond-async' : '', wait === undefined ? '' : `wait=${seconds}`].filter(
    (part) => part !== '',
  );
  return { waitMs: seconds * 1000, applied: applied.join(', ') };
};
