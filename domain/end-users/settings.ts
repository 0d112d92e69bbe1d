import { LRUCache } from 'lru-cache';
import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import { requireVersion } from '#lib/versions.ts';

export const captchaProviders = ['turnstile', 'hcaptcha'] as const;
export type CaptchaProvider = (typeof captchaProviders)[number];

/** A service that tells people from programs. */
export interface CaptchaSettings {
  readonly provider: CaptchaProvider;
  /** Sealed with the project's data key, base64. */
  readonly secret_sealed: string;
  /** The end of the secret, as answers show it. */
  readonly masked_secret: string;
  /** The application shows it to the provider: it is public. Null: the application knows it by itself. */
  readonly site_key: string | null;
  /** Another service that answers in the same form; null: the provider's own. */
  readonly verify_url: string | null;
}

/** A list of passwords that nobody may choose, since they are known from data breaches. */
export interface BreachedPasswords {
  /** The first five digits of a password's SHA-1 are put behind it. */
  readonly url: string;
}

/** How a project wants its users to sign in (contract, section 9). */
export interface AuthSettings {
  /** `invite`: only users that the project's administration has made. `closed`: nobody new. */
  readonly signup: 'open' | 'invite' | 'closed';
  /** The fewest characters of a password. */
  readonly password_min: number;
  /** Asked before a new password is taken; null: no list is. */
  readonly breached_passwords: BreachedPasswords | null;
  /** New users sign in once they opened the link in a mail. */
  readonly confirm_email: boolean;
  /** The application, where links lead to when nothing else is asked for; null: nowhere. */
  readonly site_url: string | null;
  /** Further addresses that links may lead to. */
  readonly redirect_allow_list: readonly string[];
  /** Whether somebody may sign in without an address, as a new user each time. */
  readonly anonymous: boolean;
  /** Whether users may set up a second factor, or must: a sign-in without one may do nothing but that. */
  readonly mfa: 'off' | 'optional' | 'required';
  /** A function of the project that changes the claims of access tokens; null: none. */
  readonly custom_claims_function_id: string | null;
  /** Asked for at sign-up, at sign-in with a password and for mails; null: nothing is. */
  readonly captcha: CaptchaSettings | null;
  /** How the pages look that the platform shows to the project's users. */
  readonly branding: {
    /** An https address of an image. */
    readonly logo_url: string | null;
    /** `#rrggbb` */
    readonly color: string | null;
  };
  readonly session: {
    /** A sign-in that is not used for so long ends, in seconds. */
    readonly idle_s: number;
    /** A sign-in ends after so long, in seconds. */
    readonly absolute_s: number;
    /** A new sign-in of a user ends the earlier ones. */
    readonly single: boolean;
  };
}

const day = 86_400;

const defaultAuthSettings: AuthSettings = {
  signup: 'open',
  password_min: 8,
  breached_passwords: null,
  confirm_email: false,
  site_url: null,
  redirect_allow_list: [],
  anonymous: false,
  mfa: 'optional',
  custom_claims_function_id: null,
  captcha: null,
  branding: { logo_url: null, color: null },
  session: { idle_s: 30 * day, absolute_s: 90 * day, single: false },
};

type Given<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

/** Settings to change; what is left out stays. */
export interface AuthSettingsChange extends Given<Omit<AuthSettings, 'session' | 'branding'>> {
  readonly session?: Given<AuthSettings['session']> | undefined;
  readonly branding?: Given<AuthSettings['branding']> | undefined;
}

const withGiven = <T extends object>(base: T, change: Given<T> = {}): T => ({
  ...base,
  ...Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)),
});

const merged = (base: AuthSettings, { session, branding, ...change }: AuthSettingsChange): AuthSettings => ({
  ...withGiven<Omit<AuthSettings, 'session' | 'branding'>>(base, change),
  session: withGiven(base.session, session),
  branding: withGiven(base.branding, branding),
});

/** The settings, and how often they were changed. */
export interface VersionedAuthSettings extends AuthSettings {
  readonly version: number;
}

export const readAuthSettings = async (db: Queryable, projectId: string): Promise<VersionedAuthSettings> => {
  const row = await maybeOne(
    db.query<{ settings: AuthSettingsChange; version: number }>(
      'select settings, version from auth_settings where project_id = $1',
      [projectId],
      'auth-settings',
    ),
  );
  return { ...merged(defaultAuthSettings, row?.settings ?? {}), version: row?.version ?? 0 };
};

/**
 * Nested settings merge. Needs a transaction.
 * @param expected the version that the settings have to have; null: any
 * @returns the settings as they are now
 * @throws {ServiceError} `precondition_failed`
 */
export const changeAuthSettings = async (
  db: Queryable,
  projectId: string,
  change: AuthSettingsChange,
  expected: number | null,
): Promise<VersionedAuthSettings> => {
  await db.query('select from projects where id = $1 for no key update', [projectId]);
  const { version, ...present } = await readAuthSettings(db, projectId);
  requireVersion('The settings of sign-in have changed', version, expected);
  const settings = merged(present, change);
  await db.query(
    `insert into auth_settings (id, project_id, settings, version) values ($1, $2, $3, $4)
     on conflict (project_id) do update
       set settings = excluded.settings, version = excluded.version, updated_at = now()`,
    [newId(), projectId, JSON.stringify(settings), version + 1],
  );
  return { ...settings, version: version + 1 };
};

/** The settings of projects as every process sees them within a second of a change. */
export interface AuthSettingsCache {
  readonly of: (projectId: string) => Promise<AuthSettings>;
  readonly forget: (projectId: string) => void;
}

const cacheTtlMs = 5000;
const maxKept = 5000;

/** @param isSubscribed whether this process hears of changes by others: only then is anything kept */
export const createAuthSettings = (db: Queryable, isSubscribed: () => boolean): AuthSettingsCache => {
  const kept = new LRUCache<string, AuthSettings>({ max: maxKept, ttl: cacheTtlMs });
  /** Rises with each change: what was read before one must not be kept after it. */
  let changes = 0;
  return {
    of: async (projectId) => {
      const wasSubscribed = isSubscribed();
      const present = wasSubscribed ? kept.get(projectId) : undefined;
      if (present) return present;
      const before = changes;
      const settings = await readAuthSettings(db, projectId);
      if (wasSubscribed && before === changes) kept.set(projectId, settings);
      return settings;
    },
    forget: (projectId) => {
      changes += 1;
      kept.delete(projectId);
    },
  };
};
