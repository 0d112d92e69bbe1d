import type { Actor } from '#domain/audit/actor.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import type { JsonParser } from '#lib/json-parser.ts';
import { type Change, type FlagQuota, countUse, forgetVersions } from './store.ts';

/** The author of a change of flags, and the limits of the project. */
export interface Author {
  readonly projectId: string;
  readonly actor: Actor;
  readonly quota: FlagQuota;
  readonly json: Pick<JsonParser, 'read'>;
}

const overQuota = (limit: string, value: number): ServiceError =>
  new ServiceError('plan_limit_exceeded', `The project may have ${value} ${limit} on its plan.`, {
    details: { limit, value },
    hint: 'Delete flags or segments that are not used, or change the plan.',
  });

/** @throws {ServiceError} `plan_limit_exceeded` when a change adds more than there is room for */
export const takeRoom = async (
  db: Queryable,
  { projectId, quota }: Pick<Author, 'projectId' | 'quota'>,
  added: { readonly flags: number; readonly bytes: number },
): Promise<void> => {
  const used = await countUse(db, projectId, added);
  if (added.flags > 0 && quota.flags !== null && used.flags > quota.flags) throw overQuota('flags', quota.flags);
  if (added.bytes > 0 && used.bytes > quota.bytes) throw overQuota('bytes of flags and segments', quota.bytes);
};

/** Past versions may have as many bytes as present flags: all versions together twice what the plan allows. */
export const keepVersions = (db: Queryable, { projectId, quota }: Pick<Author, 'projectId' | 'quota'>): Promise<void> =>
  forgetVersions(db, projectId, 2 * quota.bytes);

export const publicActor = ({ type, id, email }: Actor): Change['actor'] => ({
  type,
  ...(id !== undefined && { id }),
  ...(email !== undefined && { email }),
});
