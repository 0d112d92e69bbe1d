import { type KeyObject, createPrivateKey } from 'node:crypto';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import { type SmtpServer, tlsRuleOf } from './smtp.ts';
import type { Dkim } from './transport.ts';

const minBits = 1024;
/** Twice the bits take eight times as long to sign with, and each mail is signed while everything else waits. */
const maxBits = 4096;
const maxExponent = 2n ** 32n;

const openKey = (pem: string): KeyObject | null => {
  try {
    return createPrivateKey(pem);
  } catch {
    return null;
  }
};

const number = (text = ''): bigint => BigInt(`0x0${Buffer.from(text, 'base64url').toString('hex')}`);

const numbersOf = (key: KeyObject) => {
  const { n, e, d, p, q, dp, dq, qi } = key.export({ format: 'jwk' });
  return [n, e, d, p, q, dp, dq, qi].map(number) as [bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint];
};

/** It is signed with the parts of the key; a small product says nothing of how long its factors are. */
const isWhole = (key: KeyObject): boolean => {
  try {
    const [n, e, d, p, q, dp, dq, qi] = numbersOf(key);
    return p > 1n && q > 1n && p * q === n && e > 1n && e < maxExponent && d < n && dp < p && dq < q && qi < p;
  } catch {
    return false;
  }
};

/** Why mail cannot be signed with this key; null: it can. @param pem of a private key */
export const faultOfDkimKey = (pem: string): string | null => {
  const key = openKey(pem);
  if (key === null) return 'must be a PEM private key';
  if (key.asymmetricKeyType !== 'rsa') {
    return `must be an RSA key: mail is signed with rsa-sha256, and with ${key.asymmetricKeyType} it would go out unsigned`;
  }
  const bits = key.asymmetricKeyDetails?.modulusLength ?? 0;
  if (bits < minBits || bits > maxBits) return `must be an RSA key of ${minBits} to ${maxBits} bits, not of ${bits}`;
  return isWhole(key) ? null : 'is no RSA key whose parts belong together';
};

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

/** The columns of the settings `s`. */
export const settingsColumns = `s.id, s.project_id, s.host, s.port, s.username, s.password_sealed, s.from_email, s.from_name,
  s.dkim_domain, s.dkim_selector, s.dkim_key_sealed, s.version, s.created_at, s.updated_at`;

/** The placeholder of a secret in answers; sent back, it keeps the secret. */
export const maskedSecret = '••••';

/** The settings as their author gives them. */
interface EmailSettingsInput {
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
      `select ${settingsColumns} from email_settings s where s.project_id = $1`,
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
    db.query<EmailSettingsRow>(`select ${settingsColumns} from email_settings s where s.project_id = $1 for update`, [
      projectId,
    ]),
  );
  const of = { sealer, projectId };
  return one(
    db.query<EmailSettingsRow>(
      `insert into email_settings as s (id, project_id, host, port, username, password_sealed, from_email, from_name,
       dkim_domain, dkim_selector, dkim_key_sealed)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
     on conflict (project_id) do update set host = excluded.host, port = excluded.port, username = excluded.username,
       password_sealed = excluded.password_sealed, from_email = excluded.from_email, from_name = excluded.from_name,
       dkim_domain = excluded.dkim_domain, dkim_selector = excluded.dkim_selector,
       dkim_key_sealed = excluded.dkim_key_sealed, version = s.version + 1, updated_at = now()
     returning ${settingsColumns}`,
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
    ),
  );
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
