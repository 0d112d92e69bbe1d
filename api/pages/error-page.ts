import type { ErrorCode, ServiceError } from '#lib/errors.ts';
import { badNote, html, pageText } from './html.ts';

const titles: Partial<Record<ErrorCode, string>> = {
  expired: 'This link no longer works',
  not_found: 'This link leads nowhere',
  already_member: 'You have accepted already',
  rate_limited: 'Too many attempts',
};

/** A failure as a person in a browser reads it. */
export const errorPage = (error: ServiceError): string =>
  pageText(
    titles[error.code] ?? 'That did not work',
    html`${badNote(error.message)}${error.hint === null ? null : html`<p>${error.hint}</p>`}`,
  );
