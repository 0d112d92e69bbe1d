import { z } from 'zod';
import { defineJob } from './define.ts';

/** Sends one mail of a project. What it says stands sealed in its row, never in the job. */
export const emailSend = defineJob({
  type: 'email.send',
  pool: 'email',
  data: z.object({ email_id: z.uuid() }),
  result: z.object({
    email_id: z.uuid(),
    /** The mail server's reply, or a note that the mail lies in the mailbox page. */
    response: z.string(),
  }),
  running: { free: 2, pro: 10, enterprise: 50 },
  plural: 'Mails of projects',
  maxAttempts: 5,
  // Contract, section 7: a server that is busy is given a moment.
  retryFromMs: 2000,
  // At least once: a mail whose worker died before the server's word was recorded goes out again, with the same id.
  repeatable: true,
  // Up to a minute until the server has the mail, and up to ten for its answer (RFC 5321, 4.5.3.2.6).
  timeoutMs: 720_000,
  capped: true,
});
