import { z } from 'zod';
import { createPersonalToken, deletePersonalToken, listPersonalTokens } from '#domain/accounts/personal-tokens.ts';
import { scopes } from '#domain/accounts/scopes.ts';
import { ServiceError } from '#lib/errors.ts';
import { requestOf } from '#api/shapes/accounts.ts';
import { signedIn } from '../../access.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { id, instant, name, namedObject, orgId, page, shownOnce } from '../../fields.ts';

const area = 'accounts';

const scope = z.enum(scopes);

const token = namedObject('AccessToken', {
  id,
  name: z.string(),
  scopes: z.array(scope),
  org_id: z.string().nullable().describe('The one organization that it works in; null: all of yours.'),
  last_four: z.string(),
  expires_at: instant.nullable(),
  last_used_at: instant.nullable().describe('Exact to the minute.'),
  created_at: instant,
});

const order = z.strictObject({
  name,
  scopes: z
    .array(scope)
    .min(1)
    .max(3)
    .default(['read', 'write'])
    .describe('read: what a viewer may; write: what a developer may; admin: all that you may.'),
  org_id: orgId.nullish(),
  expires_at: instant.nullish(),
});

/** @throws {ServiceError} `validation_failed` */
const requireFuture = (at: Date | null): Date | null => {
  if (at === null || at.getTime() > Date.now()) return at;
  throw new ServiceError('validation_failed', 'A token must expire in the future.', {
    details: [{ path: 'expires_at', message: 'must be in the future' }],
  });
};

/** Personal access tokens (contract, section 11). None of these endpoints can be called with one. */
export const personalTokenEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/auth/tokens',
    area,
    summary: 'Your personal access tokens',
    access: signedIn,
    query: page,
    response: z.object({ tokens: z.array(token), total: z.int() }),
    handle: ({ query }, { db, user }) => listPersonalTokens(db, user.id, query),
  }),
  endpoint({
    method: 'post',
    path: '/auth/tokens',
    area,
    summary: 'Make a personal access token; it is shown once',
    access: signedIn,
    body: order,
    status: 201,
    response: token.extend({ token: shownOnce(z.string()) }),
    handle: ({ body }, call) =>
      createPersonalToken(
        call.db,
        { user: call.user, actor: call.actor, origin: requestOf(call).origin },
        {
          name: body.name,
          scopes: [...new Set(body.scopes)],
          orgId: body.org_id ?? null,
          expiresAt: requireFuture(body.expires_at ?? null),
        },
      ),
  }),
  endpoint({
    method: 'delete',
    path: '/auth/tokens/{id}',
    area,
    summary: 'Delete a personal access token; it works no more',
    access: signedIn,
    params: z.object({ id }),
    handle: ({ params }, { db, user, actor }) => deletePersonalToken(db, { userId: user.id, id: params.id, actor }),
  }),
];
