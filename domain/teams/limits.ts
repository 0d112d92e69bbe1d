import { lockUser } from '#domain/accounts/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { countOwned } from './store.ts';

/**
 * Before a user becomes the owner of one more organization: by creating it, by an invite, or by a change of role. Requests
 * at the same moment wait for each other until the caller's transaction ends, so that the limit is exact.
 * @param max `PLINTH_ORGS_PER_USER`
 * @throws {ServiceError} `plan_limit_exceeded`
 */
export const requireRoomToOwn = async (db: Queryable, userId: string, max: number): Promise<void> => {
  await lockUser(db, userId);
  const owned = await countOwned(db, userId);
  if (owned < max) return;
  throw new ServiceError('plan_limit_exceeded', `This user owns ${owned} organizations, and ${max} is the limit.`, {
    hint: 'Delete an organization, or transfer one to somebody else.',
  });
};
