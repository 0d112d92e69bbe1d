import { callerOf } from '../../dashboard/client/api.ts';
import type { Operations, Schemas } from './types.ts';

/** Calls an operation of the operators' API. @throws {ApiError} */
export const call = callerOf<Operations>();

export type Queue = Schemas['OpsQueue'];
export type Worker = Schemas['Worker'];
export type Project = Schemas['OpsProject'];
export type DeletedProject = Schemas['DeletedProject'];
export type Job = Schemas['OpsJob'];
export type JobDetail = Schemas['OpsJobDetail'];
export type JobQuery = Operations['GET /ops/api/jobs']['query'];
export type JobStatus = Job['status'];
export type JobType = NonNullable<JobQuery['type']>;
export type Mail = Operations['GET /ops/api/mail/{mail_id}']['answer'];
export type MailStatus = Mail['status'];
export type Series = Operations['GET /ops/api/charts']['answer']['types'][number];
export type Fire = Operations['GET /ops/api/cron/upcoming']['answer']['fires'][number];
export type Trouble = Operations['GET /ops/api/trouble']['answer']['troubles'][number];
export type RedriveOrder = Operations['POST /ops/api/dead/redrive']['body'];
