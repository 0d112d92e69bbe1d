import { LRUCache } from 'lru-cache';
import { type Plan, type Project, projectColumns } from '#domain/projects/store.ts';
import type { Role } from '#domain/teams/store.ts';
import type { User } from '#domain/users/users.ts';
import { type Queryable, maybeOne } from '#lib/control-db.ts';

/** The person behind an access token. */
export interface SignedIn {
  readonly user: User;
  readonly signInId: string;
}

interface UserRow {
  readonly sign_in_id: string;
  readonly user_id: string;
  readonly email: string;
  readonly full_name: string | null;
  readonly avatar_url: string | null;
  readonly user_created_at: Date;
}

const userColumns = `s.id as sign_in_id, u.id as user_id, u.email, u.full_name, u.avatar_url,
  u.created_at as user_created_at`;
const validToken = `sign_in_tokens t join sign_ins s on s.id = t.sign_in_id join users u on u.id = s.user_id`;
const isValid = `t.hash = $1 and t.kind = 'access' and t.expires_at > now() and s.ended_at is null`;

const signedInOf = (row: UserRow): SignedIn => ({
  user: {
    id: row.user_id,
    email: row.email,
    full_name: row.full_name,
    avatar_url: row.avatar_url,
    created_at: row.user_created_at,
  },
  signInId: row.sign_in_id,
});

/** @returns undefined for a token that is unknown, over, or of a sign-in that has ended */
export const findSignedIn = async (db: Queryable, tokenHash: Buffer): Promise<SignedIn | undefined> => {
  const row = await maybeOne(
    db.query<UserRow>(`select ${userColumns} from ${validToken} where ${isValid}`, [tokenHash], 'sign-in'),
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
  tokenHash: Buffer,
  projectId: string | null,
): Promise<SignedInAt | undefined> => {
  const row = await maybeOne(
    db.query<UserRow & Project & { role: Role | null }>(
      `select ${userColumns}, m.role, ${projectColumns} from ${validToken}
       left join projects p on p.id = $2 and p.deleted_at is null
       left join members m on m.org_id = p.org_id and m.user_id = u.id
       where ${isValid}`,
      [tokenHash, projectId],
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
    ...project
  } = row;
  return { ...signedInOf(row), membership: role === null ? null : { project, role } };
};

/** A member as recalled: a job is inserted only while all of this holds. */
export interface AssumedMember {
  /** The hash of the access token. */
  readonly tokenHash: Buffer;
  readonly role: Role;
  readonly plan: Plan;
}

/** Recalls members of projects, without a statement for each call. */
export interface Members {
  /** As the database has it now. */
  readonly read: typeof findSignedInAt;
  /** As the database had it within the last seconds; undefined: nothing is remembered. */
  readonly recall: (tokenHash: Buffer, projectId: string | null) => SignedInAt | undefined;
}

const rememberedMs = 5000;
const maxRemembered = 20_000;

const nameOf = (tokenHash: Buffer, projectId: string | null): string => `${tokenHash.toString('base64')} ${projectId}`;

/**
 * Only members of active projects are remembered, so that whoever is refused is refused by what the database has now,
 * and guesses take no memory.
 */
export const createMembers = (): Members => {
  const known = new LRUCache<string, SignedInAt>({ max: maxRemembered, ttl: rememberedMs });
  return {
    read: async (db, tokenHash, projectId) => {
      const name = nameOf(tokenHash, projectId);
      known.delete(name);
      const found = await findSignedInAt(db, tokenHash, projectId);
      if (found?.membership?.project.status === 'active') known.set(name, found);
      return found;
    },
    recall: (tokenHash, projectId) => known.get(nameOf(tokenHash, projectId)),
  };
};
