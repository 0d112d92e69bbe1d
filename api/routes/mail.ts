import { z } from 'zod';
import { operator } from '../access.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, instant, wholeNumber } from '../fields.ts';

const mail = z.object({ id, recipient: z.string(), subject: z.string(), body: z.string(), created_at: instant });

/** What the platform has written to its users. */
export const mailEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/ops/api/mail',
    area: 'operators',
    summary: 'The newest mails of the platform itself: invites and password resets',
    access: operator,
    query: z.object({ limit: wholeNumber(50, 1, 200) }),
    response: z.object({ mails: z.array(mail) }),
    handle: async ({ query }, { db, deps }) => ({ mails: await deps.mail.list(db, query.limit) }),
  }),
];
