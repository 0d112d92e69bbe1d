import type { Operations } from '../../client/types.ts';

export type JobQuery = NonNullable<Operations['GET /projects/{project_id}/jobs']['query']>;
export type Job = Operations['GET /projects/{project_id}/jobs/{job_id}']['answer'];
export type JobStatus = Job['status'];
export type JobType = NonNullable<JobQuery['type']>;

export const statuses: readonly JobStatus[] = [
  'queued',
  'running',
  'waiting',
  'succeeded',
  'failed',
  'dead',
  'cancelled',
  'expired',
];

/** Statuses in which a job can be run again, and in which it can be cancelled. */
export const retried: readonly JobStatus[] = ['failed', 'dead', 'cancelled', 'expired'];
export const open: readonly JobStatus[] = ['queued', 'running', 'waiting'];

/** The kinds of jobs, as people call them. */
export const types: Readonly<Partial<Record<JobType, string>>> = {
  'function.invoke': 'Run of a function',
  'cron.fire': 'Fire of a schedule',
  'webhook.deliver': 'Delivery of a webhook',
  'email.send': 'E-mail',
  'ai.arena': 'AI arena',
  'vectors.upsert': 'Vectors',
  'users.import': 'Import of users',
  'storage.sweep': 'Sweep of files',
  'storage.render': 'Picture',
  'project.provision': 'Creation of the project',
  'function.snapshot': 'Preparation of a large function',
};

export const typeText = (type: string): string => (types as Readonly<Record<string, string>>)[type] ?? type;

/** The meaning of each status, for people who are new to it. */
export const statusTexts: Readonly<Record<JobStatus, string>> = {
  queued: 'It waits for its turn.',
  running: 'It runs now.',
  waiting: 'Its run sleeps, or waits for an event; it holds no place meanwhile.',
  succeeded: 'It ended well.',
  failed: 'It failed, and is not tried again.',
  dead: 'A dead letter: all attempts of its retry policy failed.',
  cancelled: 'Somebody cancelled it.',
  expired: 'It had not begun when its time was over.',
};

const reasons: Readonly<Record<NonNullable<Job['waiting_reason']>, string>> = {
  project_limit: 'all places of the project are taken',
  global_limit: 'all places of this kind on the platform are taken',
  queue: 'others wait before it',
  retry_backoff: 'it failed, and is tried again after a pause',
  paused: 'the queue is paused',
  delayed: 'its time has not come',
  concurrency: 'others with its concurrency key run',
  organization_limit: 'all places of the organization are taken',
  rate_limited: 'its function has run as often as its rate allows',
  debounce: 'its function waits until a burst is over',
  batch: 'its function gathers a batch',
  step_sleep: 'its run sleeps until a time',
  step_event: 'its run waits for an event',
};

/** Why a job waits, with its place; null when it does not. */
export const waitText = ({
  waiting_reason: reason,
  position,
}: Pick<Job, 'waiting_reason' | 'position'>): string | null =>
  reason === null ? null : `${reasons[reason] ?? reason}${position === null ? '' : ` (place ${position})`}`;

export const statusClass = (status: JobStatus): string => {
  if (status === 'succeeded') return 'good';
  return status === 'failed' || status === 'dead' || status === 'expired' ? 'bad' : '';
};

/** A time span in the largest unit that fits. */
export const spanText = (ms: number): string => {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${(ms / 1000).toFixed(1)} s`;
  return ms < 7_200_000 ? `${Math.round(ms / 60_000)} min` : `${Math.round(ms / 3_600_000)} h`;
};
