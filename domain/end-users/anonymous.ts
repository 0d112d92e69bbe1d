import { newId } from '#lib/ids.ts';
import { countOfNetwork } from './attempts.ts';
import type { EndUserDeps, SignInCall } from './end-users.ts';
import { AuthError } from './errors.ts';
import { type SignedIn, beginSession } from './sessions.ts';
import { accountOfNew, requireRoomForUser, requireStorable } from './sign-up.ts';
import { userColumns, userEventSql } from './users.ts';

/** The user has an account and no identity: there is nothing to sign in with a second time. */
const insertSql = `
  with u as (
    insert into auth.users (id, is_anonymous, raw_user_meta_data, raw_app_meta_data) values ($1, true, $2, '{}')
    returning id, email, email_confirmed_at, raw_user_meta_data, raw_app_meta_data, is_anonymous, invited_at,
      banned_until, created_at, updated_at)
  select ${userColumns}, auth.put_account(u.id, null, null, null, null, null),
    auth.emit('user.created', ${userEventSql}),
    auth.emit('auth.signup', json_build_object('user_id', u.id, 'email', null, 'method', 'anonymous'))
  from u`;

/**
 * Makes a user without an address, and signs them in. They become one with an address by giving it (`updateProfile`).
 * @throws {AuthError} `anonymous_provider_disabled`, `validation_failed`, `over_request_rate_limit`
 */
export const signInAnonymously = async (
  deps: EndUserDeps,
  call: SignInCall,
  data: Readonly<Record<string, unknown>>,
): Promise<SignedIn> => {
  const { project, origin } = call;
  const { anonymous, signup } = await deps.settings.of(project.id);
  if (!anonymous || signup !== 'open') {
    throw new AuthError('anonymous_provider_disabled', 'Signing in anonymously is turned off.');
  }
  requireStorable(data);
  await countOfNetwork(deps.authDb, project.id, { kind: 'anonymous', network: origin.network }, deps.isLimited);
  await requireRoomForUser(deps, project);
  const id = newId();
  await deps.authDb.users(project.id, insertSql, [id, JSON.stringify(data)]);
  const user = await accountOfNew(deps, project.id, { id });
  return beginSession(deps, call, { user, method: 'anonymous', passwordSealed: null, counted: null });
};
