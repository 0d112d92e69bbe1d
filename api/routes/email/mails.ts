import { z } from 'zod';
import { noteInProject } from '#domain/audit/audit.ts';
import {
  type EmailFilter,
  type ListedEmail,
  emailStatuses,
  getEmail,
  listEmails,
  readEmail,
  resendEmails,
  resendable,
  undelivered,
} from '#domain/email/mails.ts';
import { templateTypes } from '#domain/email/templates.ts';
import { createConcurrencyLimit } from '#lib/concurrency-limit.ts';
import { ServiceError } from '#lib/errors.ts';
import { bulkResult } from '#api/shapes/jobs.ts';
import { inProject } from '../../access.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { id, instant, namedObject, text, wholeNumber } from '../../fields.ts';

const area = 'email';
const path = '/projects/{project_id}/email/mails';
const projectPath = z.object({ project_id: id });
const mailPath = z.object({ project_id: id, email_id: id });

const mail = namedObject('Email', {
  id,
  template: z.enum(templateTypes),
  recipient: z.string(),
  status: z
    .enum(emailStatuses)
    .describe(
      'bounced: the server refused the address. unknown: it had the mail and did not say whether it took it. kept: the project had no server, on a machine for development.',
    ),
  attempts: z.int(),
  response: z.string().nullable().describe('What the server said to it.'),
  error: z.string().nullable().describe('Why it was not sent.'),
  message_id: z.string().nullable(),
  job_id: id.describe('The job that sends it: its page has each attempt.'),
  request_id: z.string().nullable().describe('Null: the job is not kept any more.'),
  next_attempt_at: instant.nullable(),
  created_at: instant,
  sent_at: instant.nullable(),
  can_be_resent: z.boolean().describe('It was not delivered, and its text is still stored.'),
});

const filterShape = {
  template: z.enum(templateTypes).optional(),
  recipient: text(320, 1).optional().describe('A part of the address, without regard to case.'),
  error: text(200, 1).optional().describe('A part of the error, without regard to case.'),
  request_id: text(64, 1).optional(),
  since: z.iso.datetime({ offset: true }).optional().describe('Made then or later.'),
  until: z.iso.datetime({ offset: true }).optional().describe('Made before that.'),
};

const timeOf = (time: string | undefined): Date | undefined => (time === undefined ? undefined : new Date(time));

const filterOf = ({
  request_id: requestId,
  since,
  until,
  ...rest
}: z.output<z.ZodObject<typeof filterShape>>): EmailFilter => ({
  ...rest,
  requestId,
  since: timeOf(since),
  until: timeOf(until),
});

const listedStatus = z.enum(['undelivered', ...emailStatuses]);

const statusesOf = (status: z.output<typeof listedStatus> | undefined): EmailFilter['statuses'] => {
  if (status === undefined) return undefined;
  return status === 'undelivered' ? undelivered : [status];
};

const maxIds = 200;

const resendBody = z.strictObject({
  filter: z
    .strictObject({
      ...filterShape,
      ids: z.array(id).min(1).max(maxIds).optional(),
      status: z.enum(resendable).optional(),
    })
    .refine((filter) => Object.values(filter).some((value) => value !== undefined), {
      error: 'must name something: an empty filter would be all mails',
    }),
  dry_run: z.boolean().default(false).describe('Counts only.'),
});

const withResend = createConcurrencyLimit(
  1,
  () =>
    new ServiceError('rate_limited', 'Mails of the project are being sent again already.', {
      headers: { 'Retry-After': '10' },
    }),
);

const shown = (row: ListedEmail): z.output<typeof mail> => row;

/** The mails that a project sent, or could not send. */
export const projectMailEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path,
    area,
    summary: 'The mails of the last 30 days without what they say, the latest first',
    access: inProject('viewer'),
    params: projectPath,
    query: z.object({
      ...filterShape,
      status: listedStatus
        .optional()
        .describe('undelivered: failed, bounced, unknown and kept, which nothing sends again by itself.'),
      cursor: id.optional().describe('`next` of the page before.'),
      limit: wholeNumber(50, 1, 200),
    }),
    response: z.object({
      mails: z.array(mail),
      next: id
        .nullable()
        .describe('For `cursor`; null at the end. A page examines 20,000 mails, and may hold none of them.'),
    }),
    handle: async ({ query: { status, cursor, limit, ...rest } }, { db, project }) => {
      const filter = { ...filterOf(rest), statuses: statusesOf(status) };
      const { mails, next } = await listEmails(db, project.id, { ...filter, before: cursor, limit });
      return { mails: mails.map(shown), next };
    },
  }),
  endpoint({
    method: 'get',
    path: `${path}/{email_id}`,
    area,
    summary: 'A mail, without what it says',
    access: inProject('viewer'),
    params: mailPath,
    response: mail,
    handle: async ({ params }, { db, project }) => shown(await getEmail(db, project.id, params.email_id)),
  }),
  endpoint({
    method: 'post',
    path: `${path}/{email_id}/read`,
    area,
    summary: 'What a mail that was not delivered says, with its links; the audit log says who read it',
    // Its links sign in as its reader, which only admins may do otherwise.
    access: inProject('admin'),
    params: mailPath,
    response: z.object({ subject: z.string(), text: z.string() }),
    handle: async ({ params }, { actor, db, deps, project }) => {
      const content = await readEmail({ db, projects: deps.projects }, project, params.email_id);
      const entry = { actor, action: 'email.read', targetType: 'email', targetId: params.email_id };
      await noteInProject(db, project, entry);
      return content;
    },
  }),
  endpoint({
    method: 'post',
    path: `${path}/resend`,
    area,
    summary: 'Send mails of a filter again that were not delivered',
    access: inProject('developer'),
    transaction: 'none',
    params: projectPath,
    body: resendBody,
    response: bulkResult,
    handle: ({ body: { filter, dry_run: dryRun } }, { deps, project, requestId, starter }) => {
      if (!dryRun && project.status !== 'active')
        throw new ServiceError('project_not_ready', `The project is ${project.status}; its mails are not sent.`);
      const { ids, status, ...rest } = filter;
      const which = { ...filterOf(rest), ids, statuses: statusesOf(status) };
      const how = { db: deps.db, jobs: deps.jobs, startedBy: starter, requestId };
      return withResend(project.id, () => resendEmails(how, project.id, { filter: which, dryRun }));
    },
  }),
];
