import { type Filters, oneOf } from '../../dashboard/client/filters.ts';
import type { JobQuery, JobStatus, JobType } from './api.ts';

export type JobFilter = Omit<JobQuery, 'limit' | 'offset' | 'project_id'>;

export const statuses: readonly JobStatus[] = [
  'queued',
  'running',
  'waiting',
  'succeeded',
  'failed',
  'cancelled',
  'expired',
  'dead',
];

const texts = ['project', 'function', 'error_code', 'error', 'request_id', 'since', 'until', 'id'] as const;

/** The filter that the address has. Links of earlier versions name a project by `project_id`. */
export const jobFilterOf = (filters: Filters, types: readonly JobType[]): JobFilter => {
  const status = oneOf(statuses, filters.get('status'));
  const type = oneOf(types, filters.get('type'));
  const project = filters.get('project') || filters.get('project_id');
  const given = texts.map((name) => [name, filters.get(name)]).filter(([, value]) => value !== '');
  return {
    ...Object.fromEntries(given),
    ...(project && { project }),
    ...(status && { status }),
    ...(type && { type }),
  };
};

const two = (value: number): string => String(value).padStart(2, '0');

/** A time of the API as an input for local times wants it; empty when it is none. */
export const localTime = (iso: string): string => {
  const date = new Date(iso);
  if (iso === '' || Number.isNaN(date.getTime())) return '';
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day}T${two(date.getHours())}:${two(date.getMinutes())}`;
};

/** The local time of such an input as the API wants it. */
export const utcTime = (local: string): string => (local === '' ? '' : new Date(local).toISOString());
