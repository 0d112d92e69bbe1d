import { LRUCache } from 'lru-cache';
import { type Plan, type Project, projectColumns } from '#domain/projects/store.ts';
import type { Role } from '#domain/teams/store.ts';
import { type Scope, widestOf } from './scopes.ts';
import type { User } from '#domain/users/users.ts';
import { type Queryable, maybeOne } from '#lib/control-db.ts';

/** By what a person is recognized: an access token, the cookie of the dashboard, or a personal access token. */
export interface Credential {
  readonly kind: 'access' | 'cookie' | 'personal';
  /** Whatever the person's role is, no more than this; `admin`: all of it. */
  readonly scope: Scope;
  /** The one organization in which it counts; null: all of the person's. */
  readonly orgId: string | null;
}

/** The person behind an access token. */
export interface SignedIn {
  readonly user: User;
  readonly signInId: string;
  readonly credential: Credential;
}

/** A token as it came. */
export interface GivenToken {
  readonly hash: Buffer;
  /** A browser sent it as a cookie: then nothing but a cookie's token counts, and otherwise everything but it. */
  readonly isCookie: boolean;
}

interface UserRow {
  readonly sign_in_id: string;
  readonly user_id: string;
  readonly email: string;
  readonly full_name: string | null;
  readonly avatar_url: string | null;
  readonly user_created_at: Date;
  readonly token_kind: Credential['kind'];
  readonly scopes: Scope[] | null;
  readonly token_org: string | null;
}

const userColumns = `s.id as sign_in_id, u.id as user_id, u.email, u.full_name, u.avatar_url,
  u.created_at as user_created_at, t.kind as token_kind, k.scopes, k.org_id as token_org`;
const validToken = `sign_in_tokens t join sign_ins s on s.id = t.sign_in_id join users u on u.id = s.user_id
  left join personal_tokens k on k.id = s.id`;
const isValid = `t.hash = $1 and t.kind <> 'refresh' and (t.kind = 'cookie') = $2 and t.expires_at > now()
  and s.ended_at is null`;

const signedInOf = (row: UserRow): SignedIn => ({
  user: {
    id: row.user_id,
    email: row.email,
    full_name: row.full_name,
    avatar_url: row.avatar_url,
    created_at: row.user_created_at,
  },
  signInId: row.sign_in_id,
  credential: {
    kind: row.token_kind,
    scope: row.scopes === null ? 'admin' : widestOf(row.scopes),
    orgId: row.token_org,
  },
});

/** @returns undefined for a token that is unknown, over, or of a sign-in that has ended */
export const findSignedIn = async (db: Queryable, { hash, isCookie }: GivenToken): Promise<SignedIn | undefined> => {
  const row = await maybeOne(
    db.query<UserRow>(`select ${userColumns} from ${validToken} where ${isValid}`, [hash, isCookie], 'sign-in'),
  );
  return row && signedInOf(row);
};

/** A person and a project. */
export interface SignedInAt extends SignedIn {
  /** Null: there is no such project, or the person is not a member. */
  readonly membership: { readonly project: Project; readonly role: Role } | null;
}

/**
 * Finds the caller, the project, and the caller's role in it: one round trip.
 * @param projectId null: none
 */
export const findSignedInAt = async (
  db: Queryable,
  { hash, isCookie }: GivenToken,
  projectId: string | null,
): Promise<SignedInAt | undefined> => {
  const row = await maybeOne(
    db.query<UserRow & Project & { role: Role | null }>(
      `select ${userColumns}, m.role, ${projectColumns} from ${validToken}
       left join projects p on p.id = $3 and p.deleted_at is null
       left join members m on m.org_id = p.org_id and m.user_id = u.id and m.org_id = coalesce(k.org_id, m.org_id)
       where ${isValid}`,
      [hash, isCookie, projectId],
      'project-member',
    ),
  );
  if (row === undefined) return undefined;
  const {
    role,
    sign_in_id: _s,
    user_id: _u,
    email: _e,
    full_name: _f,
    avatar_url: _a,
    user_created_at: _c,
    token_kind: _k,
    scopes: _sc,
    token_org: _o,
    ...project
  } = row;
  return { ...signedInOf(row), membership: role === null ? null : { project, role } };
};

/** A member as recalled: a job is inserted only while all of this holds. */
export interface AssumedMember {
  /** The hash of the access token. */
  readonly tokenHash: Buffer;
  /** As the membership has it, whatever the token's scope makes of it. */
  readonly role: Role;
  readonly plan: Plan;
}

/** Recalls members of projects, without a statement for each call. */
export interface Members {
  /** As the database has it now. */
  readonly read: typeof findSignedInAt;
  /** As the database had it within the last seconds; undefined: nothing is remembered. */
  readonly recall: (token: GivenToken, projectId: string | null) => SignedInAt | undefined;
}

const rememberedMs = 5000;
const maxRemembered = 20_000;

const nameOf = ({ hash, isCookie }: GivenToken, projectId: string | null): string =>
  `${hash.toString('base64')} ${isCookie ? 'cookie' : 'bearer'} ${projectId}`;

/**
 * Only members of active projects are remembered, so that whoever is refused is refused by what the database has now,
 * and guesses take no memory.
 */
export const createMembers = (): Members => {
  const known = new LRUCache<string, SignedInAt>({ max: maxRemembered, ttl: rememberedMs });
  return {
    read: async (db, token, projectId) => {
      const name = nameOf(token, projectId);
      known.delete(name);
      const found = await findSignedInAt(db, token, projectId);
      if (found?.membership?.project.status === 'active') known.set(name, found);
      return found;
    },
    recall: (token, projectId) => known.get(nameOf(token, projectId)),
  };
};
