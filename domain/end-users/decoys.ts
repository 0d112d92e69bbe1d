import { createHmac } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Project } from '#domain/projects/store.ts';
import type { EndUserDeps } from './end-users.ts';

/*
 * The hashes that users were imported with take another time than ours, so the time of a refused sign-in would tell
 * whether an address is one of an imported user. An unknown address is therefore checked against a decoy: of the forms
 * that the project's users have, each is taken as often as users have it, and always the same one for an address.
 */

/** How many users have hashes that take as long as a decoy; null: ours. */
interface Share {
  readonly decoy: string | null;
  readonly users: number;
}

const keptMs = 60_000;
const maxKept = 5000;
/** By project. A minute late is no harm: shares change slowly once an import is done. */
const kept = new LRUCache<string, readonly Share[]>({ max: maxKept, ttl: keptMs });

const readShares = async ({ authDb }: EndUserDeps, projectId: string): Promise<readonly Share[]> => {
  const imported = await authDb.secrets<{ decoy: string; users: number; all_users: number }>(
    projectId,
    `select f.decoy, f.users::float8 as users,
       (select greatest(c.reltuples, 0)::float8 from pg_class c where c.oid = to_regclass('auth.users')) as all_users
     from auth.foreign_hashes f where f.users > 0 order by f.decoy`,
  );
  const foreign = imported.reduce((sum, { users }) => sum + users, 0);
  const own = { decoy: null, users: Math.max(0, (imported[0]?.all_users ?? 0) - foreign) };
  return imported.length === 0 ? [] : [own, ...imported];
};

const sharesOf = async (deps: EndUserDeps, projectId: string): Promise<readonly Share[]> => {
  const known = kept.get(projectId);
  if (known !== undefined) return known;
  const shares = await readShares(deps, projectId);
  kept.set(projectId, shares);
  return shares;
};

const purpose = 'password-decoys';

/** The share that a point between 0 and 1 falls into. */
const shareAt = (shares: readonly Share[], point: number): Share | undefined => {
  let left = point * shares.reduce((sum, { users }) => sum + users, 0);
  return shares.find(({ users }) => (left -= users) < 0);
};

/** A hash that an address is checked against if it is nobody's; null: one of ours. */
export const decoyFor = async (
  deps: EndUserDeps,
  project: Pick<Project, 'id' | 'data_key'>,
  email: string,
): Promise<string | null> => {
  const shares = await sharesOf(deps, project.id);
  if (shares.length === 0) return null;
  const digest = createHmac('sha256', deps.sealer(project).keyFor(purpose)).update(email).digest();
  return shareAt(shares, digest.readUInt32BE(0) / 2 ** 32)?.decoy ?? null;
};
