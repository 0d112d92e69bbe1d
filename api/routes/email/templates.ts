import { z } from 'zod';
import { isAddress, isOneLine } from '#domain/email/address.ts';
import {
  type Template,
  type TemplateType,
  findTemplate,
  listTemplates,
  missingOf,
  previewOf,
  resetTemplate,
  sampleVariables,
  setTemplate,
  templateTypes,
} from '#domain/email/templates.ts';
import { emailRequest } from '#domain/email/email.ts';
import { ServiceError, isErrorCode } from '#lib/errors.ts';
import { emailSend } from '#queues/email-send.ts';
import { type InProject, inProject } from '../../access.ts';
import type { Call } from '../../call.ts';
import { type Endpoint, RawReply, endpoint, jobEndpoint } from '../../endpoint.ts';
import { id, instant, namedObject, text } from '../../fields.ts';

const area = 'email';

const maxBodyBytes = 256 * 1024;

const subject = text(200, 1)
  .refine((value) => value.trim() !== '', { error: 'must not be blank' })
  .refine(isOneLine, { error: 'must be one line without control characters' });
const htmlBody = text(maxBodyBytes, 1).refine((value) => Buffer.byteLength(value) <= maxBodyBytes, {
  error: 'must not be longer than 256 KB',
});

const shownTemplate = namedObject('EmailTemplate', {
  type: z.enum(templateTypes),
  subject: z.string(),
  html_body: z.string(),
  enabled: z.boolean(),
  is_default: z.boolean(),
  variables: z.array(z.string()).describe('The placeholders that are filled in.'),
  missing: z.array(z.string()).describe('Placeholders that nothing fills in.'),
  updated_at: instant.nullable(),
});

const shown = (template: Template): z.output<typeof shownTemplate> => ({
  ...template,
  is_default: template.updated_at === null,
  variables: Object.keys(sampleVariables(template.type, '')),
  missing: missingOf(template.type, template),
});

const projectPath = z.object({ project_id: id });
const templatePath = z.object({ project_id: id, type: z.enum(templateTypes) });
const path = '/projects/{project_id}/email/templates';

/** The saved template, or the texts that are being written. */
const draftOf = async (
  type: TemplateType,
  draft: { readonly subject?: string | undefined; readonly html_body?: string | undefined },
  { db, project }: Call<InProject>,
) => {
  const saved = await findTemplate(db, project.id, type);
  return { subject: draft.subject ?? saved.subject, html_body: draft.html_body ?? saved.html_body };
};

const previewName = (type: TemplateType, { project, user }: Call<InProject>) => ({
  projectId: project.id,
  userId: user.id,
  type,
});

// Nothing of it runs, nothing is loaded but pictures: the text is its author's, the reader somebody else.
const previewPolicy = "sandbox; default-src 'none'; img-src https: data:; style-src 'unsafe-inline'";

const templateEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path,
    area,
    summary: 'The templates of the mails that the project sends',
    access: inProject('viewer'),
    params: projectPath,
    response: z.object({ templates: z.array(shownTemplate), total: z.int() }),
    handle: async (_input, { db, project }) => {
      const templates = await listTemplates(db, project.id);
      return { templates: templates.map(shown), total: templates.length };
    },
  }),
  endpoint({
    method: 'get',
    path: `${path}/{type}`,
    area,
    summary: 'One template',
    access: inProject('viewer'),
    params: templatePath,
    response: shownTemplate,
    handle: async ({ params }, { db, project }) => shown(await findTemplate(db, project.id, params.type)),
  }),
  endpoint({
    method: 'put',
    path: `${path}/{type}`,
    area,
    summary: 'Set a template; `missing` names placeholders that nothing fills in',
    access: inProject('developer'),
    params: templatePath,
    body: z.strictObject({ subject, html_body: htmlBody, enabled: z.boolean() }),
    response: shownTemplate,
    handle: async ({ params, body }, { db, project }) => shown(await setTemplate(db, project.id, params.type, body)),
  }),
  endpoint({
    method: 'post',
    path: `${path}/{type}/reset`,
    area,
    summary: 'Back to the default template',
    access: inProject('developer'),
    params: templatePath,
    response: shownTemplate,
    handle: async ({ params }, { db, project }) => shown(await resetTemplate(db, project.id, params.type)),
  }),
];

const previewEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: `${path}/{type}/preview`,
    area,
    summary: 'A template filled in with samples; with `subject` or `html_body`, of a text that is not saved',
    access: inProject('viewer'),
    params: templatePath,
    body: z.strictObject({
      subject: subject.optional(),
      html_body: htmlBody.optional(),
      keep: z
        .boolean()
        .default(false)
        .describe('Keep it for ten minutes, for you alone: `GET …/preview?draft=true` shows it in a frame.'),
    }),
    response: z.object({
      subject: z.string(),
      html: z.string(),
      text: z.string(),
      variables: z.record(z.string(), z.unknown()),
      missing: z.array(z.string()),
    }),
    transaction: 'none',
    handle: async ({ params, body }, call) => {
      const { type } = params;
      const { missing, ...preview } = previewOf(type, await draftOf(type, body, call), call.project.name);
      if (body.keep) await call.deps.mailPreviews.keep(previewName(type, call), preview.html);
      return { ...preview, missing: [...missing] };
    },
  }),
  endpoint({
    method: 'get',
    path: `${path}/{type}/preview`,
    area,
    summary: 'A template as a page for a frame: no script runs, nothing but pictures is loaded',
    access: inProject('viewer'),
    params: templatePath,
    query: z.object({
      draft: z
        .enum(['true', 'false'])
        .default('false')
        .describe('true: the preview that you had kept, else the saved one.'),
    }),
    mediaType: 'text/html',
    handle: async ({ params, query }, call) => {
      const { type } = params;
      const kept = query.draft === 'true' ? await call.deps.mailPreviews.find(previewName(type, call)) : null;
      const html = kept ?? previewOf(type, await draftOf(type, {}, call), call.project.name).html;
      call.setHeader('Content-Security-Policy', previewPolicy);
      call.setHeader('X-Content-Type-Options', 'nosniff');
      return new RawReply(html, 'text/html; charset=utf-8');
    },
  }),
];

const sendTest: Endpoint = jobEndpoint({
  method: 'post',
  path: `${path}/{type}/send-test`,
  area,
  summary: 'Send a template, filled in with samples, to an address',
  access: inProject('developer'),
  params: templatePath,
  body: z.strictObject({ email: z.string().refine(isAddress, { error: 'must be one e-mail address' }) }),
  response: emailSend.result,
  request: ({ params, body }, { db, deps, project, requestId }) =>
    emailRequest(
      { db, projects: deps.projects, local: deps.config.PLINTH_LOCAL === 'on' },
      {
        project,
        template: params.type,
        to: body.email,
        variables: sampleVariables(params.type, project.name),
        requestId,
      },
    ),
  answer: ({ outcome: { result, error } }) => {
    if (result !== null) return Promise.resolve(new RawReply(result));
    const code = error !== null && isErrorCode(error.code) ? error.code : 'mail_failed';
    throw new ServiceError(code, error?.message ?? 'The mail was not sent.');
  },
});

/** Templates of a project's mail. */
export const emailTemplateEndpoints: readonly Endpoint[] = [...templateEndpoints, ...previewEndpoints, sendTest];
