import { z } from 'zod';
import { type MailboxDeps, type Mailed, findMail, listMails, mailStatuses, retrySend } from '#domain/email/mailbox.ts';
import { notFound } from '#lib/errors.ts';
import { operator } from '../access.ts';
import type { BaseCall } from '../call.ts';
import { type Endpoint, RawReply, endpoint } from '../endpoint.ts';
import { id, instant, page } from '../fields.ts';

const area = 'operators';

const mail = z.object({
  id,
  project_id: id.nullable().describe('Null: the platform’s own.'),
  recipient: z.string(),
  subject: z.string(),
  status: z.enum(mailStatuses).describe('kept: there is no server that could send it.'),
  attempts: z.int(),
  response: z.string().nullable().describe('What the server said to it.'),
  error: z.string().nullable(),
  created_at: instant,
  sent_at: instant.nullable(),
  body: z
    .string()
    .nullable()
    .describe('Its text; null where it is not for operators: in production, all but what is kept.'),
});

const shown = ({ content, ...row }: Mailed): z.output<typeof mail> => ({ ...row, body: content?.text ?? null });

const params = z.object({ mail_id: id });

const mailboxOf = ({ db, deps }: Pick<BaseCall, 'db' | 'deps'>): MailboxDeps => ({
  db,
  sealer: deps.sealer,
  projects: deps.projects,
  local: deps.config.PLINTH_LOCAL === 'on',
  hasServer: deps.config.PLINTH_SMTP_URL !== undefined,
});

// A mail is anybody's HTML: shown as a document of its own, that may do nothing, and only within the operators' page.
const htmlSecurity =
  "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; base-uri 'none'; form-action 'none'";

/** The mail that the platform has written to its users, and that projects wrote without a mail server. */
export const mailEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/ops/api/mail',
    area,
    summary: 'The newest mails of the platform itself, and those of projects that nothing sends',
    access: operator,
    query: page.extend({ status: z.enum(mailStatuses).optional() }),
    response: z.object({ mails: z.array(mail), total: z.int() }),
    handle: async ({ query }, call) => {
      const { mails, total } = await listMails(mailboxOf(call), query);
      return { mails: mails.map(shown), total };
    },
  }),
  endpoint({
    method: 'get',
    path: '/ops/api/mail/{mail_id}',
    area,
    summary: 'A mail',
    access: operator,
    params,
    response: mail,
    handle: async ({ params: { mail_id: mailId } }, call) => shown(await findMail(mailboxOf(call), mailId)),
  }),
  endpoint({
    method: 'get',
    path: '/ops/api/mail/{mail_id}/html',
    area,
    summary: 'A mail as its reader sees it, in a document that may do nothing',
    access: operator,
    params,
    mediaType: 'text/html',
    handle: async ({ params: { mail_id: mailId } }, call) => {
      const { content } = await findMail(mailboxOf(call), mailId);
      if (content === null) throw notFound('text of the mail');
      call.setHeader('Content-Security-Policy', htmlSecurity);
      call.setHeader('X-Content-Type-Options', 'nosniff');
      return new RawReply(content.html, 'text/html; charset=utf-8');
    },
  }),
  endpoint({
    method: 'post',
    path: '/ops/api/mail/{mail_id}/retry',
    area,
    summary: 'Send a mail of the platform that was given up, or kept while there was no server',
    access: operator,
    params,
    response: mail,
    handle: async ({ params: { mail_id: mailId } }, call) => shown(await retrySend(mailboxOf(call), mailId)),
  }),
];
