import { isIP } from 'node:net';
import { z } from 'zod';
import { asciiDomain, isAddress, isOneLine } from '#domain/email/address.ts';
import {
  type EmailSettingsRow,
  deleteEmailSettings,
  faultOfDkimKey,
  findEmailSettings,
  maskedSecret,
  serverOf,
  setEmailSettings,
} from '#domain/email/settings.ts';
import { checkSmtp, checkSteps } from '#domain/email/smtp-check.ts';
import { plainRule } from '#domain/email/smtp.ts';
import { EgressRefused } from '#lib/egress/failures.ts';
import { ServiceError } from '#lib/errors.ts';
import { inProject } from '../access.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, instant, namedObject, text } from '../fields.ts';
import { projectMailEndpoints } from './email/mails.ts';
import { emailTemplateEndpoints } from './email/templates.ts';

const area = 'email';

const oneLine = (max: number, min = 0) =>
  text(max, min).refine(isOneLine, { error: 'must be one line without control characters' });
const address = z.string().refine(isAddress, { error: 'must be one e-mail address' });

/** A name or an address as URLs write them; whether it may be reached is asked of the way out. */
const isHost = (host: string): boolean =>
  isIP(host.replace(/^\[(.*)\]$/, '$1')) !== 0 || host.toLowerCase() === 'localhost' || asciiDomain(host) !== '';
const host = oneLine(253, 1).refine(isHost, { error: 'must be a host name or an address' });

const signingKey = text(16_384).superRefine((pem, context) => {
  const fault = pem === maskedSecret ? null : faultOfDkimKey(pem);
  if (fault !== null) context.addIssue({ code: 'custom', message: fault });
});

const selector = z.string().regex(/^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$/, { error: 'must be a DNS label' });

const settingsBody = z.strictObject({
  host,
  port: z.int().min(1).max(65_535),
  username: oneLine(320).default(''),
  password: text(1024).optional().describe('Left out or masked: the present one stays.'),
  from_email: address,
  from_name: oneLine(200).default(''),
  dkim: z
    .strictObject({
      domain: z.string().refine((name) => asciiDomain(name) !== '', { error: 'must be a domain' }),
      selector,
      private_key: signingKey
        .optional()
        .describe('PEM, RSA of 1024 to 4096 bits. Left out or masked: the present one stays.'),
    })
    .nullish(),
});

const shownSettings = namedObject('SmtpSettings', {
  host: z.string(),
  port: z.int(),
  username: z.string(),
  password: z.string().nullable().describe('Masked; null without one.'),
  from_email: z.string(),
  from_name: z.string(),
  dkim: z.object({ domain: z.string(), selector: z.string(), private_key: z.string() }).nullable(),
  created_at: instant,
  updated_at: instant,
});

const shown = (row: EmailSettingsRow): z.output<typeof shownSettings> => ({
  host: row.host,
  port: row.port,
  username: row.username,
  password: row.password_sealed === null ? null : maskedSecret,
  from_email: row.from_email,
  from_name: row.from_name,
  dkim:
    row.dkim_domain === null || row.dkim_selector === null
      ? null
      : { domain: row.dkim_domain, selector: row.dkim_selector, private_key: maskedSecret },
  created_at: row.created_at,
  updated_at: row.updated_at,
});

const projectPath = z.object({ project_id: id });
const path = '/projects/{project_id}/email/smtp';

const notConfigured = (): ServiceError =>
  new ServiceError('smtp_not_configured', 'The project has no mail server.', {
    hint: 'PUT /projects/{id}/email/smtp sets one.',
  });

const underTest = new Set<string>();

/** Each test holds a connection for as long as a stranger's server likes: one at a time for each project. */
const oneAtATime = async <T>(projectId: string, work: () => Promise<T>): Promise<T> => {
  if (underTest.has(projectId)) {
    throw new ServiceError('conflict', 'The mail server is being tried just now.', {
      hint: 'It takes 40 s at most. Ask again after that.',
    });
  }
  underTest.add(projectId);
  try {
    return await work();
  } finally {
    underTest.delete(projectId);
  }
};

const settingsEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path,
    area,
    summary: 'The project’s mail server, secrets masked; null when none is set',
    access: inProject('viewer'),
    params: projectPath,
    response: shownSettings.nullable(),
    handle: async (_input, { db, project }) => {
      const row = await findEmailSettings(db, project.id);
      return row === undefined ? null : shown(row);
    },
  }),
  endpoint({
    method: 'put',
    path,
    area,
    summary: 'Set the mail server; without a password the present one stays, while host, port and user name do',
    access: inProject('admin'),
    params: projectPath,
    body: settingsBody,
    response: shownSettings,
    prepare: async ({ body }, { deps }) => {
      // A private address is refused at once; a name that cannot be resolved right now is no reason to refuse it.
      await deps.egress.lookup(body.host).catch((error: unknown) => {
        if (error instanceof EgressRefused) throw error;
      });
    },
    handle: async ({ body }, { db, deps, project }) =>
      shown(await setEmailSettings(db, project.id, body, deps.projects.sealer(project))),
  }),
  endpoint({
    method: 'delete',
    path,
    area,
    summary: 'Forget the mail server',
    access: inProject('admin'),
    params: projectPath,
    handle: (_input, { db, project }) => deleteEmailSettings(db, project.id),
  }),
  endpoint({
    method: 'post',
    path: `${path}/test`,
    area,
    summary: 'Try the mail server step by step; nothing is sent',
    access: inProject('admin'),
    params: projectPath,
    response: z.object({
      ok: z.boolean(),
      steps: z.array(
        z.object({ name: z.enum(checkSteps), ok: z.boolean(), ms: z.int(), error: z.string().nullable() }),
      ),
    }),
    transaction: 'none',
    handle: async (_input, { db, deps, project }) => {
      const row = await findEmailSettings(db, project.id);
      if (row === undefined) throw notConfigured();
      const { ok, steps } = await oneAtATime(project.id, () =>
        checkSmtp({
          ...serverOf(row, deps.projects.sealer(project)),
          lookup: deps.egress.lookup,
          plainTo: plainRule(deps.config.PLINTH_LOCAL === 'on'),
          fromEmail: row.from_email,
        }),
      );
      return { ok, steps: [...steps] };
    },
  }),
];

/** A project's own mail (interface, "Email"; contract, section 7). */
export const emailEndpoints: readonly Endpoint[] = [
  ...settingsEndpoints,
  ...emailTemplateEndpoints,
  ...projectMailEndpoints,
];
