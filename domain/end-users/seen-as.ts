import type { DataCaller } from '#domain/data-api/data-api.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { type AuthDb } from './auth-db.ts';
import { type EndUserAccount, findAccount } from './users.ts';

const form = /^(?:service|anon|authenticated:([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}))$/i;

const refused = (): ServiceError =>
  new ServiceError('validation_failed', 'X-Plinth-As is none of: service, anon, authenticated:<user id>.', {
    details: [{ path: 'X-Plinth-As', message: 'must be service, anon or authenticated:<user id>' }],
  });

/** As a token of a first factor has them, but for what belongs to a sign-in and what the project's own function adds. */
const claimsOf = (user: EndUserAccount): string =>
  JSON.stringify({
    sub: user.id,
    role: 'authenticated',
    aal: 'aal1',
    is_anonymous: user.is_anonymous,
    ...(user.email !== null && { email: user.email }),
    app_metadata: user.raw_app_meta_data,
    user_metadata: user.raw_user_meta_data,
  });

/**
 * As whom a member looks at the project's tables: as the project itself, or through the eyes of the policies.
 * @param as the header `X-Plinth-As`; empty: the project itself
 * @throws {ServiceError} `validation_failed`, `not_found`: there is no such user
 */
export const seenAs = async (
  authDb: AuthDb,
  projectId: string,
  as: string,
): Promise<Pick<DataCaller, 'role' | 'claims'>> => {
  const match = form.exec(as === '' ? 'service' : as);
  if (match === null) throw refused();
  const [, userId] = match;
  if (userId === undefined)
    return as === 'anon'
      ? { role: 'anon', claims: '{"role":"anon"}' }
      : { role: 'service', claims: '{"role":"service_role"}' };
  const user = await findAccount(authDb, projectId, userId);
  if (user === undefined) throw notFound('user');
  return { role: 'authenticated', claims: claimsOf(user) };
};
