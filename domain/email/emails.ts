import type { JobRequest, Jobs } from '#domain/jobs/jobs.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Projects } from '#domain/projects/projects.ts';
import { findMailProvider } from './resend.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { emailSend } from '#queues/email-send.ts';
import { isAddress, isOneLine } from './address.ts';
import type { TemplateType } from './defaults.ts';
import { type Variables, renderHtml, renderSubject } from './render.ts';
import { findEmailSettings } from './settings.ts';
import { type EmailContent, aboutContent, deleteEmail, insertEmail } from './store.ts';
import { findTemplate } from './templates.ts';

export interface EmailDeps {
  readonly db: Queryable;
  readonly projects: Pick<Projects, 'sealer'>;
  /** On a developer's machine, what nobody can send is kept for the mailbox page. */
  readonly local: boolean;
}

/** A mail that a project writes to somebody. */
export interface EmailOrder {
  readonly project: Pick<Project, 'id' | 'name' | 'data_key'>;
  readonly template: TemplateType;
  readonly to: string;
  /** Beside `project_name`. Those that end in `_url` must be addresses of the web. */
  readonly variables: Variables;
  /** Such as List-Unsubscribe; they go out as they are given. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly requestId: string;
}

const headerName = /^[A-Za-z][A-Za-z0-9-]{0,60}$/;

const refuse = (path: string, message: string): ServiceError =>
  new ServiceError('validation_failed', 'The mail is not valid.', { details: [{ path, message }] });

const checkOrder = ({ to, variables, headers = {} }: EmailOrder): void => {
  if (!isAddress(to)) throw refuse('email', 'must be one e-mail address');
  for (const [name, value] of Object.entries(variables)) {
    if (name.endsWith('_url') && (typeof value !== 'string' || !/^https?:\/\//i.test(value)))
      throw refuse(name, 'must be an http address');
  }
  for (const [name, value] of Object.entries(headers)) {
    if (!headerName.test(name) || !isOneLine(value)) throw refuse(name, 'is not a header');
  }
};

/** @throws {ServiceError} `smtp_not_configured` when nothing can send a mail of this project */
const requireSender = async (deps: EmailDeps, project: EmailOrder['project']): Promise<void> => {
  if (deps.local || (await findEmailSettings(deps.db, project.id))) return;
  if (await findMailProvider(deps.db, deps.projects.sealer(project), project)) return;
  throw new ServiceError('smtp_not_configured', 'The project has no mail server.', {
    hint: 'PUT /projects/{id}/email/smtp sets one.',
  });
};

/**
 * The job that sends a mail; its row is written with the job's own.
 * @throws {ServiceError} `smtp_not_configured`, `validation_failed`
 */
export const emailRequest = async (deps: EmailDeps, order: EmailOrder): Promise<JobRequest<typeof emailSend>> => {
  const { project, to, requestId } = order;
  checkOrder(order);
  await requireSender(deps, project);
  const template = await findTemplate(deps.db, project.id, order.template);
  const variables = { ...order.variables, project_name: project.name };
  const content: EmailContent = {
    subject: renderSubject(template.subject, variables).text,
    html: renderHtml(template.html_body, variables).text,
    headers: order.headers,
  };
  const id = newId();
  const sealed = deps.projects.sealer(project).seal(aboutContent(id), JSON.stringify(content));
  return {
    job: emailSend,
    projectId: project.id,
    requestId,
    data: { email_id: id },
    alongside: (tx, jobId) =>
      insertEmail(tx, { id, projectId: project.id, template: order.template, recipient: to, content: sealed, jobId }),
    undo: (tx) => deleteEmail(tx, id),
  };
};

/**
 * Sends a mail to a project's user soon; null when the project has turned mails of this type off.
 * @throws {ServiceError} `smtp_not_configured`, `validation_failed`, `queue_full`
 */
export const queueEmail = async (
  deps: EmailDeps & { readonly jobs: Pick<Jobs, 'run'> },
  order: EmailOrder,
): Promise<{ readonly jobId: string } | null> => {
  const { enabled } = await findTemplate(deps.db, order.project.id, order.template);
  if (!enabled) return null;
  const { id } = await deps.jobs.run(await emailRequest(deps, order), 0);
  return { jobId: id };
};
