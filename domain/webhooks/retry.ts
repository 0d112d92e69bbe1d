const [second, minute, hour] = [1, 60, 3600];

/** The pauses after the first failed try, the second and so on, in seconds; after the last one there is no other try. */
export const pauses: readonly number[] = [
  5 * second,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  24 * hour,
];

/** Pauses are so much longer or shorter, so that what failed together does not come back together. */
const jitter = 0.1;

/** What a pause is multiplied with. */
export const spread = (random: () => number = Math.random): number => 1 - jitter + 2 * jitter * random();

const maxRetryAfterMs = 24 * 3600 * 1000;

/**
 * Until when a receiver asks to be left alone (`Retry-After`, in seconds or as a date), at most a day; null when it does
 * not, or says it in no way that there is.
 * @param now in ms
 */
export const retryAfter = (header: string | string[] | undefined, now: number): Date | null => {
  const text = (Array.isArray(header) ? header[0] : header)?.trim() ?? '';
  const at = /^\d{1,15}$/.test(text) ? now + Number(text) * 1000 : Date.parse(text);
  if (Number.isNaN(at) || at <= now) return null;
  return new Date(Math.min(at, now + maxRetryAfterMs));
};

/** From so many failures in a row on a webhook has one try at a time, with pauses between them. */
export const breakAfter = 5;
/** In seconds: the first such pause, doubled each time up to the longest. */
export const minPause = 5;
export const maxPause = 5 * minute;

/** After so many days of nothing but failures a webhook is made inactive, */
export const hopelessDays = 5;
/** by so many tries at least. */
export const hopelessTries = 10;
/** What failed says nothing of today when nothing was tried for so many days: longer than any pause. */
export const forgottenDays = 2;
