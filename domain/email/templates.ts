import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import { type Variables, renderHtml, renderSubject, textOf, unknownPlaceholders } from './render.ts';

/** The mails that a project sends to its users. */
export const templateTypes = [
  'signup',
  'invite',
  'password-reset',
  'magic-link',
  'email-change',
  'reauthentication',
] as const;
export type TemplateType = (typeof templateTypes)[number];

/** The content of a mail. */
interface TemplateText {
  readonly subject: string;
  readonly html_body: string;
}

interface Words {
  /** The text that a list of mails shows beside the subject. */
  readonly preheader: string;
  readonly title: string;
  readonly lead: string;
  /** The link, by its placeholder; null: the mail brings a code alone. */
  readonly link: { readonly button: string; readonly url: string } | null;
  readonly note: string;
}

const font = "font-family:-apple-system,BlinkMacSystemFont,'Segoe UI',Roboto,Helvetica,Arial,sans-serif";

const linkOf = ({ button, url }: NonNullable<Words['link']>): string => `
<table role="presentation" cellpadding="0" cellspacing="0" border="0"><tr>
<td bgcolor="#1d4ed8" style="border-radius:8px;background-color:#1d4ed8"><a href="{{${url}}}" style="${font};display:inline-block;padding:13px 26px;font-size:16px;line-height:20px;font-weight:600;color:#ffffff;text-decoration:none;border-radius:8px">${button}</a></td>
</tr></table>
<p class="faint" style="${font};font-size:14px;line-height:21px;color:#6b7280;margin:26px 0 4px">If the button does not work, copy this address into your browser:</p>
<p style="${font};font-size:14px;line-height:21px;margin:0;word-break:break-all"><a href="{{${url}}}" style="color:#2563eb">{{${url}}}</a></p>`;

/**
 * Tables, since Outlook lays out with Word, and styles on each element, since Gmail drops others in forwarded mail. The
 * colours keep their contrast when a client inverts them for dark mode; the style block is for clients that ask first.
 */
const page = ({ preheader, title, lead, link, note }: Words): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<title>${title}</title>
<style>
@media (prefers-color-scheme: dark) {
  .back { background-color: #17191c !important; }
  .card { background-color: #22252a !important; border-color: #3a3f46 !important; }
  .text { color: #f1f3f5 !important; }
  .faint { color: #a9b1ba !important; }
}
@media (max-width: 520px) { .card { padding: 24px 20px !important; } }
</style>
</head>
<body class="back" style="margin:0;padding:0;background-color:#f3f4f6;-webkit-text-size-adjust:100%">
<div style="display:none;max-height:0;overflow:hidden;opacity:0;font-size:1px;line-height:1px">${preheader}</div>
<table role="presentation" class="back" width="100%" cellpadding="0" cellspacing="0" border="0" style="background-color:#f3f4f6">
<tr><td align="center" style="padding:32px 12px">
<table role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" style="max-width:520px">
<tr><td class="faint" style="${font};font-size:15px;line-height:22px;font-weight:600;color:#4b5563;padding:0 4px 16px">{{project_name}}</td></tr>
<tr><td class="card" style="background-color:#ffffff;border:1px solid #e5e7eb;border-radius:10px;padding:36px 40px">
<h1 class="text" style="${font};font-size:22px;line-height:30px;font-weight:600;color:#111827;margin:0 0 12px">${title}</h1>
<p class="text" style="${font};font-size:16px;line-height:25px;color:#1f2937;margin:0 0 26px">${lead}</p>${link === null ? '' : linkOf(link)}
<p class="faint" style="${font};font-size:14px;line-height:21px;color:#6b7280;margin:16px 0 0">Where a code is asked for, it is <strong class="text" style="font-size:18px;letter-spacing:2px;color:#111827">{{code}}</strong></p>
</td></tr>
<tr><td class="faint" style="${font};font-size:13px;line-height:20px;color:#6b7280;padding:16px 4px 0">${note}</td></tr>
</table>
</td></tr>
</table>
</body>
</html>
`;

/** The templates of projects without their own. */
export const defaultTemplates: Readonly<Record<TemplateType, TemplateText>> = {
  signup: {
    subject: 'Confirm your e-mail address for {{project_name}}',
    html_body: page({
      preheader: 'One click, and your account is ready.',
      title: 'Confirm your e-mail address',
      lead: 'Hello {{user_name}}, thank you for signing up. Please confirm that {{user_email}} is yours; the link works for {{expires_in}}.',
      link: { button: 'Confirm address', url: 'confirmation_url' },
      note: 'You did not sign up for {{project_name}}? Then nothing needs to be done: without a click nothing happens.',
    }),
  },
  invite: {
    subject: 'You are invited to {{project_name}}',
    html_body: page({
      preheader: 'Your invitation is waiting.',
      title: 'You are invited',
      lead: 'Hello {{user_name}}, you are invited to join {{project_name}} as {{user_email}}. The invitation works for {{expires_in}}.',
      link: { button: 'Accept invitation', url: 'invite_url' },
      note: 'You do not know {{project_name}}? Then nothing needs to be done: without a click nothing happens.',
    }),
  },
  'password-reset': {
    subject: 'Reset your password for {{project_name}}',
    html_body: page({
      preheader: 'Choose a new password.',
      title: 'Reset your password',
      lead: 'Hello {{user_name}}, somebody asked for a new password for {{user_email}}. The link works for {{expires_in}}, once.',
      link: { button: 'Choose a new password', url: 'reset_url' },
      note: 'It was not you? Then nothing needs to be done: your password stays as it is.',
    }),
  },
  'magic-link': {
    subject: 'Sign in to {{project_name}}',
    html_body: page({
      preheader: 'One click, and you are signed in.',
      title: 'Sign in',
      lead: 'Hello {{user_name}}, this link signs {{user_email}} in to {{project_name}}. It works for {{expires_in}}, once.',
      link: { button: 'Sign in', url: 'confirmation_url' },
      note: 'It was not you? Then nothing needs to be done: without a click nobody is signed in.',
    }),
  },
  'email-change': {
    subject: 'Confirm the new e-mail address for {{project_name}}',
    html_body: page({
      preheader: 'A new address waits for you to confirm it.',
      title: 'Confirm the change of your address',
      lead: 'Hello {{user_name}}, the address of your account is to become {{new_email}}. The link works for {{expires_in}}, once.',
      link: { button: 'Confirm the change', url: 'confirmation_url' },
      note: 'It was not you? Then do not open the link, and change your password.',
    }),
  },
  reauthentication: {
    subject: 'Your code for {{project_name}}',
    html_body: page({
      preheader: 'A code for the change of your password.',
      title: 'Confirm that it is you',
      lead: 'Hello {{user_name}}, somebody who is signed in to {{project_name}} as {{user_email}} wants to change the password. The code below confirms it; it works for {{expires_in}}, once.',
      link: null,
      note: 'It was not you? Then give the code to nobody, and choose a new password.',
    }),
  },
};

/** The placeholders that a mail of this type fills, with sample values. */
export const sampleVariables = (type: TemplateType, projectName: string) => {
  const urls = {
    signup: { confirmation_url: 'https://example.com/confirm?token=sample' },
    invite: { invite_url: 'https://example.com/invite?token=sample' },
    'password-reset': { reset_url: 'https://example.com/reset?token=sample' },
    'magic-link': { confirmation_url: 'https://example.com/sign-in?token=sample' },
    'email-change': { confirmation_url: 'https://example.com/confirm?token=sample', new_email: 'ada@example.org' },
    reauthentication: {},
  } as const satisfies Record<TemplateType, Readonly<Record<string, string>>>;
  return {
    user_name: 'Ada Lovelace',
    user_email: 'ada@example.com',
    project_name: projectName,
    ...urls[type],
    code: '123456',
    expires_in: type === 'invite' ? '7 days' : '1 hour',
  };
};

/** A template as it is used: the project's own, or the default. */
export interface Template extends TemplateText {
  readonly type: TemplateType;
  /** Whether mails of this type are sent. */
  readonly enabled: boolean;
  /** Null: the default. */
  readonly updated_at: Date | null;
}

const columns = 'type, subject, html_body, enabled, updated_at';

const defaultOf = (type: TemplateType): Template => ({
  type,
  ...defaultTemplates[type],
  enabled: true,
  updated_at: null,
});

export const findTemplate = async (db: Queryable, projectId: string, type: TemplateType): Promise<Template> => {
  const own = await maybeOne(
    db.query<Template>(
      `select ${columns} from email_templates where project_id = $1 and type = $2`,
      [projectId, type],
      'find-email-template',
    ),
  );
  return own ?? defaultOf(type);
};

export const listTemplates = async (db: Queryable, projectId: string): Promise<Template[]> => {
  const own = await db.query<Template>(`select ${columns} from email_templates where project_id = $1`, [projectId]);
  return templateTypes.map((type) => own.find((template) => template.type === type) ?? defaultOf(type));
};

export const setTemplate = (
  db: Queryable,
  projectId: string,
  type: TemplateType,
  text: TemplateText & Pick<Template, 'enabled'>,
): Promise<Template> =>
  one(
    db.query<Template>(
      `insert into email_templates (id, project_id, type, subject, html_body, enabled) values ($1, $2, $3, $4, $5, $6)
       on conflict (project_id, type) do update set subject = excluded.subject, html_body = excluded.html_body,
         enabled = excluded.enabled, updated_at = now()
       returning ${columns}`,
      [newId(), projectId, type, text.subject, text.html_body, text.enabled],
    ),
  );

/** Back to the default; answers it. */
export const resetTemplate = async (db: Queryable, projectId: string, type: TemplateType): Promise<Template> => {
  await db.query('delete from email_templates where project_id = $1 and type = $2', [projectId, type]);
  return defaultOf(type);
};

/** The placeholders that no mail of this type fills. */
export const missingOf = (type: TemplateType, { subject, html_body: body }: TemplateText): string[] =>
  unknownPlaceholders([subject, body], sampleVariables(type, ''));

/** The rendered mail. */
interface Preview {
  readonly subject: string;
  readonly html: string;
  readonly text: string;
  readonly variables: Variables;
  readonly missing: readonly string[];
}

/** @throws {ServiceError} `validation_failed` when it grows beyond 1 MB */
export const previewOf = (type: TemplateType, text: TemplateText, projectName: string): Preview => {
  const variables = sampleVariables(type, projectName);
  const [subject, html] = [renderSubject(text.subject, variables), renderHtml(text.html_body, variables)];
  return {
    subject: subject.text,
    html: html.text,
    text: textOf(html.text),
    variables,
    missing: [...new Set([...subject.missing, ...html.missing])],
  };
};
