import { DatabaseError } from 'pg';
import { AuthError } from './errors.ts';
import type { AuthDb } from './auth-db.ts';

/** A way in which a user signs in. */
interface Identity {
  readonly identity_id: string;
  /** The provider's name for the user. */
  readonly id: string;
  readonly user_id: string;
  readonly provider: string;
  readonly identity_data: Readonly<Record<string, unknown>>;
  readonly email: string | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly last_sign_in_at: string | null;
}

/** A second factor of a user. */
interface Factor {
  readonly id: string;
  readonly friendly_name: string;
  readonly factor_type: 'totp';
  readonly status: 'verified' | 'unverified';
  readonly created_at: string;
  readonly updated_at: string;
  readonly last_challenged_at: string | null;
}

/** A user of a project's application, as `auth.users` has it. */
export interface EndUserRow {
  readonly id: string;
  readonly email: string | null;
  readonly email_confirmed_at: Date | null;
  readonly raw_user_meta_data: Readonly<Record<string, unknown>>;
  readonly raw_app_meta_data: Readonly<Record<string, unknown>>;
  readonly is_anonymous: boolean;
  readonly invited_at: Date | null;
  readonly banned_until: Date | null;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** With what the platform alone reads. */
export interface EndUserAccount extends EndUserRow {
  /** Somebody has shown that they read mail to the address: a link was used, or a provider or administrator says so. */
  readonly is_email_proved: boolean;
  readonly password_sealed: Buffer | null;
  readonly last_sign_in_at: Date | null;
  /** An address that waits to be confirmed. */
  readonly new_email: string | null;
  readonly identities: readonly Identity[];
  readonly factors: readonly Factor[];
}

/** The columns of a user `u`. */
export const userColumns = `u.id, u.email, u.email_confirmed_at, u.raw_user_meta_data, u.raw_app_meta_data,
  u.is_anonymous, u.invited_at, u.banned_until, u.created_at, u.updated_at`;

/**
 * Whether the address of a user `u` was proved, and does not count as confirmed only because the project asks for nothing.
 * As `not exists`, PostgreSQL would read the identities of all users where it expects many rows.
 */
export const emailProvedSql = `(u.email_confirmed_at is not null and coalesce((
  select p.data ->> 'email_verified' <> 'false' from auth.identities p
  where p.user_id = u.id and p.provider = 'email' limit 1), true))`;

/** The columns of a user `u` and its account `a`. */
export const accountColumns = `${userColumns}, ${emailProvedSql} as is_email_proved, a.password_sealed, a.last_sign_in_at, a.new_email,
  (select coalesce(json_agg(json_build_object('identity_id', i.id, 'id', i.subject, 'user_id', i.user_id,
     'provider', i.provider, 'identity_data', i.data, 'email', i.email, 'created_at', i.created_at,
     'updated_at', i.updated_at, 'last_sign_in_at', i.last_sign_in_at) order by i.created_at, i.id), '[]')
   from auth.identities i where i.user_id = u.id) as identities,
  (select coalesce(json_agg(json_build_object('id', f.id, 'friendly_name', f.friendly_name, 'factor_type', 'totp',
     'status', case when f.verified_at is null then 'unverified' else 'verified' end, 'created_at', f.created_at,
     'updated_at', f.updated_at, 'last_challenged_at', f.last_challenged_at) order by f.created_at, f.id), '[]')
   from auth.factors f where f.user_id = u.id) as factors`;

/** Where the columns of an account come from. */
export const accountSource = 'auth.users u left join auth.accounts a on a.user_id = u.id';

/** How the platform marks that a user signs in by an address, in `raw_app_meta_data`. */
export const emailProvider = JSON.stringify({ provider: 'email', providers: ['email'] });

/** Whether a change failed since another user has the address. */
export const isUniqueEmail = (error: unknown): boolean =>
  error instanceof DatabaseError && error.constraint === 'users_email_key';

export const maxMetadataBytes = 4096;

/** Whether metadata are small enough, and hold nothing that PostgreSQL cannot keep in jsonb: NUL, lone surrogates. */
export const isStorable = (metadata: Readonly<Record<string, unknown>>): boolean => {
  const text = JSON.stringify(metadata);
  return Buffer.byteLength(text) <= maxMetadataBytes && !/(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/i.test(text);
};

/** E-mail addresses are compared, and stored, in small letters. */
export const normalEmail = (email: string): string => email.trim().toLowerCase();

export const findAccountByEmail = async (
  db: AuthDb,
  projectId: string,
  email: string,
): Promise<EndUserAccount | undefined> => {
  const [row] = await db.secrets<EndUserAccount>(
    projectId,
    `select ${accountColumns} from ${accountSource} where u.email = $1`,
    [email],
  );
  return row;
};

export const findAccount = async (db: AuthDb, projectId: string, id: string): Promise<EndUserAccount | undefined> => {
  const [row] = await db.secrets<EndUserAccount>(
    projectId,
    `select ${accountColumns} from ${accountSource} where u.id = $1`,
    [id],
  );
  return row;
};

export const isBanned = ({ banned_until }: Pick<EndUserRow, 'banned_until'>, now = Date.now()): boolean =>
  banned_until !== null && banned_until.getTime() > now;

/** @throws {AuthError} `user_banned` */
export const requireNotBanned = (user: Pick<EndUserRow, 'banned_until'>, status?: number): void => {
  if (!isBanned(user)) return;
  throw new AuthError('user_banned', 'The user is banned.', status === undefined ? {} : { status });
};

const isoOf = (column: string): string => `to_char(u.${column} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** The user `u` as events show it: nothing that lets anybody in. */
export const userEventSql = `json_build_object('id', u.id, 'email', u.email,
  'email_confirmed_at', ${isoOf('email_confirmed_at')}, 'is_anonymous', u.is_anonymous,
  'user_metadata', u.raw_user_meta_data, 'app_metadata', u.raw_app_meta_data,
  'created_at', ${isoOf('created_at')}, 'updated_at', ${isoOf('updated_at')})`;
