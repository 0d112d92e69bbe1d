import { z } from 'zod';
import { listSigningKeys, rotateSigningKeys, signingAlgorithms } from '#domain/end-users/keys.ts';
import {
  type ClientMetadata,
  applicationTypes,
  changeClient,
  changeSecret,
  createClient,
  deleteClient,
  getClient,
  grantTypes,
  listClients,
  scopes,
} from '#domain/oauth/clients.ts';
import { endSessionsOfClient } from '#domain/oauth/sessions.ts';
import { inProject } from '../access.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, instant, name, namedObject, page, shownOnce, text } from '../fields.ts';
import { expectedOf } from '../http/if-match.ts';

const area = 'oauth';

const uri = text(2048, 1);
const redirectUris = z.array(uri).max(50).describe('Where codes may be sent to. Compared as they are written.');
const logoutUris = z.array(uri).max(50).describe('Where a sign-out may lead to.');
const backchannel = uri
  .refine((given) => /^https?:$/.test(URL.parse(given)?.protocol ?? ''), { error: 'must be a web address' })
  .nullable()
  .describe('Is told of each sign-out (OpenID Connect Back-Channel Logout 1.0).');
const grants = z.array(z.enum(grantTypes)).min(1).max(grantTypes.length);
const scopeList = z.array(z.enum(scopes)).max(scopes.length);
const alg = z.enum(signingAlgorithms);
const applicationType = z
  .enum(applicationTypes)
  .describe('web: has a server that keeps a secret; native: on a device; spa: a page alone.');

const client = namedObject('OAuthClient', {
  client_id: id,
  name: z.string(),
  redirect_uris: z.array(z.string()),
  grant_types: z.array(z.string()),
  scopes: z.array(z.string()),
  application_type: applicationType,
  post_logout_redirect_uris: z.array(z.string()),
  backchannel_logout_uri: z.string().nullable(),
  id_token_signed_response_alg: alg,
  version: z.int().describe('Rises with each change. If-Match names it.'),
  created_at: instant,
  updated_at: instant,
});

const created = namedObject('OAuthClientWithSecret', {
  ...client.shape,
  client_secret: shownOnce(z.string().nullable()).describe('The secret. It appears here only; null: there is none.'),
});

const body = z.strictObject({
  name,
  redirect_uris: redirectUris.default([]),
  grant_types: grants.default(['authorization_code']),
  scopes: scopeList.default(['openid', 'profile', 'email']),
  application_type: applicationType.default('web'),
  post_logout_redirect_uris: logoutUris.default([]),
  backchannel_logout_uri: backchannel.default(null),
  id_token_signed_response_alg: alg.default('RS256'),
});

const change = z.strictObject({
  name: name.optional(),
  redirect_uris: redirectUris.optional(),
  grant_types: grants.optional(),
  scopes: scopeList.optional(),
  post_logout_redirect_uris: logoutUris.optional(),
  backchannel_logout_uri: backchannel.optional(),
  id_token_signed_response_alg: alg.optional(),
});

type Shown<T> = Omit<T, keyof ClientMetadata> & z.output<z.ZodObject<Omit<typeof body.shape, never>>>;

/** Lists as the answer has them. */
const shown = <T extends ClientMetadata>(of: T): Shown<T> => ({
  ...of,
  redirect_uris: [...of.redirect_uris],
  post_logout_redirect_uris: [...of.post_logout_redirect_uris],
  grant_types: [...of.grant_types],
  scopes: [...of.scopes],
});

const path = '/projects/{project_id}/oauth/clients';
const projectPath = z.object({ project_id: id });
const clientPath = z.object({ project_id: id, client_id: id });

const maxOverlapSeconds = 30 * 24 * 3600;
const overlap = z.int().min(0).max(maxOverlapSeconds);

const signingKey = namedObject('SigningKey', { id, alg, created_at: instant, expires_at: instant.nullable() });
const keysPath = '/projects/{project_id}/auth/keys';
const keyList = z.object({ keys: z.array(signingKey) });

/** Access tokens that were signed a moment ago last for an hour. */
const defaultKeyOverlapSeconds = 24 * 3600;

/** The clients of a project's OpenID provider, and the keys that it signs with (interface; contract, section 9). */
export const oauthClientEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path,
    area,
    summary: 'The clients of the project’s OpenID provider',
    access: inProject('viewer'),
    params: projectPath,
    query: page,
    response: z.object({ clients: z.array(client), total: z.int() }),
    handle: async ({ query }, { db, project }) => {
      const { clients, total } = await listClients(db, project.id, query);
      return { clients: clients.map(shown), total };
    },
  }),
  endpoint({
    method: 'post',
    path,
    area,
    summary: 'Register a client',
    access: inProject('admin'),
    params: projectPath,
    body,
    status: 201,
    response: created,
    handle: async ({ body: metadata }, { db, project }) => shown(await createClient(db, project.id, metadata)),
  }),
  endpoint({
    method: 'get',
    path: `${path}/{client_id}`,
    area,
    summary: 'One client',
    access: inProject('viewer'),
    params: clientPath,
    response: client,
    handle: async ({ params }, { db, project }) => shown(await getClient(db, project.id, params.client_id)),
  }),
  endpoint({
    method: 'patch',
    path: `${path}/{client_id}`,
    area,
    summary: 'Change a client; what is left out stays. If-Match names the version',
    access: inProject('admin'),
    params: clientPath,
    body: change,
    response: client,
    handle: async ({ params, body: given }, call) => {
      const { db, deps, project, afterCommit } = call;
      afterCommit(() => deps.projectChanged(project.id));
      const of = { clientId: params.client_id, expected: expectedOf(call) };
      return shown(await changeClient(db, project.id, of, given));
    },
  }),
  endpoint({
    method: 'delete',
    path: `${path}/{client_id}`,
    area,
    summary: 'Delete a client: its tokens stop working',
    access: inProject('admin'),
    params: clientPath,
    handle: async ({ params }, { db, deps, project, afterCommit }) => {
      afterCommit(() => deps.projectChanged(project.id));
      await deleteClient(db, project.id, params.client_id);
      await endSessionsOfClient(deps.oauth, project.id, params.client_id);
    },
  }),
  endpoint({
    method: 'post',
    path: `${path}/{client_id}/secret`,
    area,
    summary: 'A new secret; the earlier one works for overlap_seconds',
    access: inProject('admin'),
    auditAction: 'oauth_client.secret',
    params: clientPath,
    body: z.strictObject({ overlap_seconds: overlap.default(0) }),
    response: created,
    handle: async ({ params, body: { overlap_seconds: seconds } }, { db, deps, project, afterCommit }) => {
      afterCommit(() => deps.projectChanged(project.id));
      return shown(await changeSecret(db, project.id, params.client_id, seconds));
    },
  }),
  endpoint({
    method: 'get',
    path: keysPath,
    area,
    summary: 'The keys that the project’s tokens are signed with',
    access: inProject('viewer'),
    params: projectPath,
    response: keyList,
    handle: async (_input, { db, project }) => ({ keys: await listSigningKeys(db, project.id) }),
  }),
  endpoint({
    method: 'post',
    path: `${keysPath}/rotate`,
    area,
    summary: 'Sign with new keys from now on; the earlier ones verify for overlap_seconds',
    access: inProject('admin'),
    params: projectPath,
    body: z.strictObject({ overlap_seconds: overlap.default(defaultKeyOverlapSeconds) }),
    response: keyList,
    handle: async ({ body: { overlap_seconds: seconds } }, { db, deps, project, afterCommit }) => {
      afterCommit(() => deps.projectChanged(project.id));
      return { keys: await rotateSigningKeys(db, project, deps.endUsers.sealer(project), seconds) };
    },
  }),
];
