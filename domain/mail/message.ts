/** Mail that the platform itself writes to its users. */
export type PlatformMessage =
  | { readonly kind: 'password-reset'; readonly to: string; readonly url: string; readonly minutes: number }
  | {
      readonly kind: 'invite';
      readonly to: string;
      readonly url: string;
      readonly orgId: string;
      readonly orgName: string;
      readonly days: number;
    }
  | { readonly kind: 'confirm-email'; readonly to: string; readonly url: string; readonly hours: number }
  /** To a user, about the own account: paragraphs of plain text. */
  | {
      readonly kind: 'account';
      readonly to: string;
      readonly subject: string;
      readonly paragraphs: readonly string[];
    }
  /** To the admins of an organization: paragraphs of plain text. */
  | {
      readonly kind: 'notice';
      readonly to: string;
      readonly projectId: string;
      readonly subject: string;
      readonly paragraphs: readonly string[];
    };

/** A mail as it is written: paragraphs of plain text. One made by `linkTo` is shown as a button in HTML. */
export interface MailText {
  readonly subject: string;
  readonly text: string;
}

/** Names come from people: kept on one line and in quotes, they cannot pose as text of ours. */
export const quoted = (name: string): string => `"${name.replaceAll(/[\s\p{C}]+/gu, ' ').replaceAll('"', "'")}"`;

/** A paragraph that asks to go somewhere. */
const linkTo = (label: string, url: string): string => `${label}:\n${url}`;

const oneLine = (text: string): string => text.replaceAll(/[\s\p{C}]+/gu, ' ').trim();

const written = (subject: string, paragraphs: readonly string[]): MailText => ({
  subject: oneLine(subject),
  text: `${paragraphs.join('\n\n')}\n`,
});

/** The content of a message. */
export const textOf = (message: PlatformMessage): MailText => {
  if (message.kind === 'notice' || message.kind === 'account') return written(message.subject, message.paragraphs);
  if (message.kind === 'invite') {
    return written('You are invited to an organization', [
      `You are invited to join ${quoted(message.orgName)}. The link works for ${message.days} days.`,
      linkTo('Accept the invite', message.url),
      'If you do not know who invites you, nothing needs to be done.',
    ]);
  }
  if (message.kind === 'confirm-email') {
    return written('Confirm your e-mail address', [
      `Someone, we hope you, named this address for a plinth account. The link works for ${message.hours} hours.`,
      linkTo('Confirm the address', message.url),
      'If it was not you, nothing needs to be done.',
    ]);
  }
  return written('Reset your password', [
    `Someone, we hope you, asked to reset your password. The link works for ${message.minutes} minutes.`,
    linkTo('Set a new password', message.url),
    'If it was not you, nothing needs to be done.',
  ]);
};

const escaped = (text: string): string =>
  text.replaceAll(/[&<>"']/g, (character) => `&#${character.codePointAt(0) ?? 0};`);

const font = "font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif";
const link = /^(?<label>[^\n]+):\n(?<url>https?:\/\/\S+)$/;

const button = (url: string, label: string): string => `
<p style="margin:24px 0"><a href="${escaped(url)}" style="display:inline-block;padding:12px 22px;border-radius:8px;background:#2f5bd7;color:#ffffff;text-decoration:none;font-weight:600">${escaped(label)}</a></p>
<p style="margin:0 0 16px;font-size:13px;color:#667085;word-break:break-all">Or open this address: <a href="${escaped(url)}" style="color:#2f5bd7">${escaped(url)}</a></p>`;

const paragraph = (text: string): string => {
  const { label, url } = link.exec(text)?.groups ?? {};
  if (label !== undefined && url !== undefined) return button(url, label);
  return `\n<p style="margin:0 0 16px">${escaped(text).replaceAll('\n', '<br>')}</p>`;
};

/** The same for clients that show HTML: styles stand at each element, since many of them keep no others. */
export const htmlOf = ({ subject, text }: MailText): string => {
  const body = text.trim().split('\n\n').map(paragraph).join('');
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"><title>${escaped(subject)}</title></head>
<body style="margin:0;padding:0;background:#f3f5f9">
<table role="presentation" width="100%" cellpadding="0" cellspacing="0" style="background:#f3f5f9"><tr><td align="center" style="padding:32px 16px">
<table role="presentation" width="100%" cellpadding="0" cellspacing="0" style="max-width:560px;background:#ffffff;border-radius:12px"><tr><td style="padding:32px;${font};font-size:16px;line-height:1.5;color:#1d2433">
<h1 style="margin:0 0 20px;font-size:20px;line-height:1.3">${escaped(subject)}</h1>${body}
</td></tr></table>
<p style="margin:16px 0 0;${font};font-size:12px;color:#667085">Sent by plinth</p>
</td></tr></table>
</body></html>
`;
};
