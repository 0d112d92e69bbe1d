import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import { type SmtpServer, tlsRuleOf } from './smtp-server.ts';
import type { Dkim } from './transport.ts';

export interface EmailSettingsRow {
  readonly id: string;
  readonly project_id: string;
  readonly host: string;
  readonly port: number;
  readonly username: string;
  readonly password_sealed: Buffer | null;
  readonly from_email: string;
  readonly from_name: string;
  readonly dkim_domain: string | null;
  readonly dkim_selector: string | null;
  readonly dkim_key_sealed: Buffer | null;
  readonly version: number;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** The columns of settings. */
export const settingsColumns = [
  'id',
  'project_id',
  'host',
  'port',
  'username',
  'password_sealed',
  'from_email',
  'from_name',
  'dkim_domain',
  'dkim_selector',
  'dkim_key_sealed',
  'version',
  'created_at',
  'updated_at',
] as const satisfies readonly (keyof EmailSettingsRow)[];
const columns = settingsColumns.join(', ');

/** The placeholder of a secret in answers; sent back, it keeps the secret. */
export const maskedSecret = '••••';

/** The settings as their author gives them. */
export interface EmailSettingsInput {
  readonly host: string;
  readonly port: number;
  readonly username: string;
  /** Left out or masked: the present one stays. */
  readonly password?: string | undefined;
  readonly from_email: string;
  readonly from_name: string;
  /** Left out or null: mail goes unsigned. */
  readonly dkim?:
    | { readonly domain: string; readonly selector: string; readonly private_key?: string | undefined }
    | null
    | undefined;
}

export const findEmailSettings = (db: Queryable, projectId: string): Promise<EmailSettingsRow | undefined> =>
  maybeOne(
    db.query<EmailSettingsRow>(
      `select ${columns} from email_settings where project_id = $1`,
      [projectId],
      'find-email-settings',
    ),
  );

const aboutPassword = (projectId: string): string => `email:${projectId}:password`;
const aboutDkim = (projectId: string): string => `email:${projectId}:dkim`;

const secretRequired = (path: string, message: string): ServiceError =>
  new ServiceError('secret_required', message, { details: [{ path, message: 'is needed' }] });

const isGiven = (secret: string | undefined): secret is string =>
  secret !== undefined && secret !== '' && secret !== maskedSecret;

/** A password goes to the server that it was given for, and to no other. */
const passwordOf = (
  input: EmailSettingsInput,
  present: EmailSettingsRow | undefined,
  { sealer, projectId }: { readonly sealer: Sealer; readonly projectId: string },
): Buffer | null => {
  if (input.username === '') return null;
  if (isGiven(input.password)) return sealer.seal(aboutPassword(projectId), input.password);
  const isSame =
    present !== undefined &&
    present.host === input.host &&
    present.port === input.port &&
    present.username === input.username;
  if (isSame && present.password_sealed !== null) return present.password_sealed;
  throw secretRequired('password', 'The password is needed: host, port or user name are new.');
};

const dkimKeyOf = (
  { dkim }: EmailSettingsInput,
  present: EmailSettingsRow | undefined,
  { sealer, projectId }: { readonly sealer: Sealer; readonly projectId: string },
): Buffer | null => {
  if (!dkim) return null;
  if (isGiven(dkim.private_key)) return sealer.seal(aboutDkim(projectId), dkim.private_key);
  const isSame = present?.dkim_domain === dkim.domain && present.dkim_selector === dkim.selector;
  if (isSame && present.dkim_key_sealed !== null) return present.dkim_key_sealed;
  throw secretRequired('dkim.private_key', 'The private key is needed: domain or selector are new.');
};

/**
 * Sets or replaces the settings.
 * @throws {ServiceError} `secret_required` when a secret was left out that cannot be kept
 */
export const setEmailSettings = async (
  db: Queryable,
  projectId: string,
  input: EmailSettingsInput,
  sealer: Sealer,
): Promise<EmailSettingsRow> => {
  const present = await maybeOne(
    db.query<EmailSettingsRow>(`select ${columns} from email_settings where project_id = $1 for update`, [projectId]),
  );
  const of = { sealer, projectId };
  const [row] = await db.query<EmailSettingsRow>(
    `insert into email_settings (id, project_id, host, port, username, password_sealed, from_email, from_name,
       dkim_domain, dkim_selector, dkim_key_sealed)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
     on conflict (project_id) do update set host = excluded.host, port = excluded.port, username = excluded.username,
       password_sealed = excluded.password_sealed, from_email = excluded.from_email, from_name = excluded.from_name,
       dkim_domain = excluded.dkim_domain, dkim_selector = excluded.dkim_selector,
       dkim_key_sealed = excluded.dkim_key_sealed, version = email_settings.version + 1, updated_at = now()
     returning ${columns}`,
    [
      present?.id ?? newId(),
      projectId,
      input.host,
      input.port,
      input.username,
      passwordOf(input, present, of),
      input.from_email,
      input.from_name,
      input.dkim?.domain ?? null,
      input.dkim?.selector ?? null,
      dkimKeyOf(input, present, of),
    ],
  );
  if (row === undefined) throw new Error('an insert that always answers a row answered none');
  return row;
};

export const deleteEmailSettings = async (db: Queryable, projectId: string): Promise<void> => {
  await db.query('delete from email_settings where project_id = $1', [projectId]);
};

/** The server, its password opened. */
export const serverOf = (row: EmailSettingsRow, sealer: Sealer): SmtpServer => ({
  host: row.host,
  port: row.port,
  tls: tlsRuleOf(row.port),
  username: row.username,
  password: row.password_sealed === null ? '' : sealer.open(aboutPassword(row.project_id), row.password_sealed),
});

/** How mail is signed; null when it is not. */
export const dkimOf = (row: EmailSettingsRow, sealer: Sealer): Dkim | null =>
  row.dkim_domain === null || row.dkim_selector === null || row.dkim_key_sealed === null
    ? null
    : {
        domain: row.dkim_domain,
        selector: row.dkim_selector,
        privateKey: sealer.open(aboutDkim(row.project_id), row.dkim_key_sealed),
      };
