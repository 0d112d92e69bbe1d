import type { Operations } from '../../client/types.ts';

export type Mail = Operations['GET /projects/{project_id}/email/mails']['answer']['mails'][number];

/** The status of a mail, in words. */
export const statusTexts: Readonly<Record<Mail['status'], string>> = {
  queued: 'It waits to be sent, or to be sent again.',
  sent: 'The mail server took it.',
  failed: 'It was given up.',
  bounced: 'The mail server refused the address. What it said is not kept, so that it cannot be sent again.',
  unknown: 'The mail server had it and did not say whether it took it: it may have arrived.',
  kept: 'There was no mail server: the operators see it in the mailbox page.',
};

export const statuses = Object.keys(statusTexts) as Mail['status'][];

export const statusClass = (status: Mail['status']): string =>
  status === 'sent' ? 'good' : status === 'queued' ? '' : 'bad';
