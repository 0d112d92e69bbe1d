import type { Operations } from '../../client/types.ts';

export type Schedule = Operations['GET /projects/{project_id}/cron/{cid}']['answer'];
export type Run = Operations['GET /projects/{project_id}/cron/{cid}/runs']['answer']['runs'][number];
export type NewSchedule = Operations['POST /projects/{project_id}/cron']['body'];

export const runClass = (status: Run['status']): string => {
  if (status === 'succeeded') return 'good';
  return status === 'failed' || status === 'dead' || status === 'expired' ? 'bad' : '';
};

/** Times that people often want, in words. */
export const usualTimes: Readonly<Record<string, string>> = {
  '*/5 * * * *': 'every five minutes',
  '0 * * * *': 'every hour',
  '0 3 * * *': 'every night at three',
  '0 8 * * 1-5': 'on working days at eight',
  '0 9 1 * *': 'on the first of each month at nine',
};

export const overlaps = {
  skip: 'Skip the new run',
  queue: 'Run after the present one',
  allow: 'Run beside the present one',
} as const satisfies Record<Schedule['overlap'], string>;

export const misfires = {
  once: 'Run once when the platform is back',
  skip: 'Skip what was missed',
  all: 'Run each one that was missed',
} as const satisfies Record<Schedule['misfire'], string>;
