/** The preferences of RFC 7240 that endpoints with jobs honour. */
export interface Preferences {
  /** How long to wait for the job's end before answering 202; 0: answer 202 at once. */
  readonly waitMs: number;
  /** For `Preference-Applied`; empty when none was given. */
  readonly applied: string;
}

const defaultWaitSeconds = 30;
const maxWaitSeconds = 60;

const secondsOf = (preference: string): number | undefined => {
  const given = /^wait *= *"?(\d+)"?$/.exec(preference)?.[1];
  return given === undefined ? undefined : Math.min(Number(given), maxWaitSeconds);
};

/**
 * `respond-async`: answer at once. `wait=N`: wait N seconds, more than 60 counts as 60. Both: wait, then answer 202.
 * What is not understood is ignored, as the RFC asks, and of a preference that is given twice the first counts.
 */
export const parsePrefer = (header: string): Preferences => {
  const given = header.split(',').map((preference) => preference.replace(/;.*/s, '').trim().toLowerCase());
  const async = given.includes('respond-async');
  const wait = given.map(secondsOf).find((seconds) => seconds !== undefined);
  const applied = [...(async ? ['respond-async'] : []), ...(wait === undefined ? [] : [`wait=${wait}`])];
  return { waitMs: (wait ?? (async ? 0 : defaultWaitSeconds)) * 1000, applied: applied.join(', ') };
};
