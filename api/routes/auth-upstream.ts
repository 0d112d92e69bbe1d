import { z } from 'zod';
import { AuthError } from '#domain/end-users/errors.ts';
import { challengeOf, makeFlowCode } from '#domain/end-users/flow-codes.ts';
import { redirectFor } from '#domain/end-users/redirects.ts';
import { beginSession } from '#domain/end-users/sessions.ts';
import { type SignedInUser, requireOwner } from '#domain/end-users/profile.ts';
import { findAccount, requireNotBanned } from '#domain/end-users/users.ts';
import type { Project } from '#domain/projects/store.ts';
import { unlinkIdentity } from '#domain/upstream/accounts.ts';
import { type FinishedUpstream, type UpstreamDeps, finishUpstream, startUpstream } from '#domain/upstream/flow.ts';
import { deleteProvider, listProviders, putProvider } from '#domain/upstream/providers.ts';
import { everyone, inProject } from '../access.ts';
import { authByUser, authCommon, authRoot, signInCallOf, userOf } from '../auth-call.ts';
import type { BaseCall } from '../call.ts';
import { type Endpoint, RawReply, endpoint } from '../endpoint.ts';
import { id, instant, namedObject, text } from '../fields.ts';
import { restUrl } from '../http/rest-url.ts';
import { htmlType } from '../pages/html.ts';
import { leadIn, leadTo, withFragment, withQuery } from '../pages/lead.ts';
import { type RawRequest, rawEndpoint } from '../raw-endpoint.ts';

const path = '/projects/{project_id}/auth/providers';
const params = z.object({ project_id: id });
const provider = z
  .string()
  .regex(/^[a-z][a-z0-9_-]{0,62}$/, { error: 'must be lower-case letters, digits, - and _' })
  .describe('google, microsoft, apple, github, or a name of yours for any OpenID provider.');
const providerPath = z.object({ project_id: id, provider });

const address = text(2048, 1).refine((given) => /^https?:$/.test(URL.parse(given)?.protocol ?? ''), {
  error: 'must be a web address',
});

const shown = namedObject('AuthProvider', {
  provider: z.string(),
  client_id: z.string(),
  client_secret: z.string().describe('Masked.'),
  issuer: z.string().nullable(),
  scopes: z.string().nullable(),
  link_by_verified_email: z.boolean(),
  enabled: z.boolean(),
  created_at: instant,
  updated_at: instant,
});

const body = z.strictObject({
  client_id: text(500, 1),
  client_secret: text(8192, 1).describe('Apple: JSON with team_id, key_id and private_key.'),
  issuer: address.nullable().default(null).describe('Left out: the provider’s own.'),
  scopes: text(500, 1).nullable().default(null).describe('Separated by spaces; left out: the usual ones.'),
  link_by_verified_email: z
    .boolean()
    .default(false)
    .describe('A user with the same confirmed address is the same one, when the provider verified it.'),
  enabled: z.boolean().default(true),
});

const upstreamOf = ({ deps }: Pick<BaseCall, 'deps'>): UpstreamDeps => deps;

const projectOf = async ({ deps }: BaseCall, ref: string | undefined): Promise<Project> => {
  const project = ref === undefined ? undefined : await deps.keys.findProject(ref);
  if (project?.status === 'active') return project;
  throw new AuthError('validation_failed', 'There is no such project, or it is not active.');
};

const callbackOf = (call: BaseCall, project: Project): string => `${restUrl(project.ref, call)}/auth/v1/callback`;

const cookieName = 'plinth_flow';
const cookieSeconds = 600;

/** Answers of Apple are posted by a page of theirs: then cookies that are not Lax alone come along. */
const cookieOf = (callback: string, value: string): string => {
  const { pathname, protocol } = new URL(callback);
  const site = protocol === 'https:' ? 'SameSite=None; Secure' : 'SameSite=Lax';
  return `${cookieName}=${value}; Path=${pathname}; Max-Age=${cookieSeconds}; HttpOnly; ${site}`;
};

const cookieIn = (header: string): string | null =>
  new RegExp(`(?:^|;\\s*)${cookieName}=([\\w-]+)`).exec(header)?.[1] ?? null;

const query = z.object({
  provider: z.string().max(63),
  redirect_to: z.string().max(4096).optional(),
  scopes: z.string().max(500).optional(),
  code_challenge: z.string().max(200).optional(),
  code_challenge_method: z.string().max(20).optional(),
  skip_http_redirect: z.enum(['true', 'false']).optional(),
});

/** @param by who adds an identity; null: a sign-in */
const start = async (
  call: BaseCall,
  project: Project,
  given: z.output<typeof query>,
  by: SignedInUser | null,
): Promise<string> => {
  const redirectTo = redirectFor(await call.deps.endUsers.settings.of(project.id), given.redirect_to);
  if (redirectTo === null) {
    throw new AuthError('validation_failed', 'The project has no address to lead back to.', {
      hint: 'Set site_url or redirect_allow_list in the settings of sign-in.',
    });
  }
  const callback = callbackOf(call, project);
  const isBrowser = given.skip_http_redirect !== 'true';
  const codeChallenge = challengeOf(given.code_challenge, given.code_challenge_method);
  const order = { provider: given.provider, callback, redirectTo, codeChallenge, by, isBrowser };
  const started = await startUpstream(upstreamOf(call), project, order);
  if (started.browser !== null) call.setHeader('Set-Cookie', cookieOf(callback, started.browser));
  return started.address;
};

/** Errors stand in both places: servers read the query, pages the fragment. */
const leadOut = (call: BaseCall, redirectTo: string, failure: AuthError): RawReply => {
  const error = failure.code === 'access_denied' ? 'access_denied' : 'server_error';
  const values = { error, error_code: failure.code, error_description: failure.message };
  return leadTo(call, withFragment(withQuery(redirectTo, values), values));
};

const signIn = async (call: BaseCall, project: Project, userId: string) => {
  const { endUsers } = call.deps;
  const user = await findAccount(endUsers.authDb, project.id, userId);
  if (user === undefined) throw new AuthError('user_not_found', 'The user was deleted meanwhile.');
  requireNotBanned(user);
  const order = { user, method: 'oauth', passwordSealed: null, counted: null } as const;
  return beginSession(endUsers, signInCallOf(call, project), order);
};

const finish = async (call: BaseCall, project: Project, { result, redirectTo, codeChallenge }: FinishedUpstream) => {
  if ('failure' in result) return leadOut(call, redirectTo, result.failure);
  const { userId } = result;
  try {
    return await leadIn(
      call,
      { redirectTo, codeChallenge },
      {
        code: (challenge) => makeFlowCode(call.deps.endUsers, project.id, { userId, method: 'oauth', challenge }),
        signIn: () => signIn(call, project, userId),
      },
    );
  } catch (error) {
    if (error instanceof AuthError) return leadOut(call, redirectTo, error);
    throw error;
  }
};

const callback = async (request: RawRequest, call: BaseCall): Promise<RawReply> => {
  const project = await projectOf(call, request.params['ref']);
  const text = request.method === 'POST' ? (await request.body()).toString() : request.queryText;
  const answer = { parameters: new URLSearchParams(text), browser: cookieIn(request.header('cookie')) };
  call.setHeader('Referrer-Policy', 'no-referrer');
  return finish(call, project, await finishUpstream(upstreamOf(call), project, answer));
};

const open = { area: 'auth', access: everyone, rate: 'refresh', errors: 'auth', mediaType: htmlType } as const;

/** Sign-in with other providers (contract, section 9), as supabase-js sends browsers to it. */
export const authUpstreamEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path,
    area: 'auth',
    summary: 'The providers that the project’s users sign in with',
    access: inProject('viewer'),
    params,
    response: z.object({ providers: z.array(shown) }),
    handle: async (_input, { db, project }) => ({ providers: await listProviders(db, project.id) }),
  }),
  endpoint({
    method: 'put',
    path: `${path}/{provider}`,
    area: 'auth',
    summary: 'Set a provider up, or change it as a whole',
    access: inProject('admin'),
    params: providerPath,
    body,
    response: shown,
    handle: ({ params: { provider: name }, body: order }, { db, deps, project }) =>
      putProvider(db, { projectId: project.id, sealer: deps.endUsers.sealer(project) }, name, order),
  }),
  endpoint({
    method: 'delete',
    path: `${path}/{provider}`,
    area: 'auth',
    summary: 'Take a provider away; its users stay',
    access: inProject('admin'),
    params: providerPath,
    handle: ({ params: { provider: name } }, { db, project }) => deleteProvider(db, project.id, name),
  }),
  rawEndpoint({
    ...open,
    method: 'get',
    path: `${authRoot}/authorize`,
    summary: 'Send a user here to sign in with another provider',
    query,
    handle: async (request, call) => {
      const project = await projectOf(call, request.params['ref']);
      const given = query.safeParse(Object.fromEntries(new URLSearchParams(request.queryText)));
      if (!given.success) throw new AuthError('validation_failed', 'The request names no provider.');
      const address = await start(call, project, given.data, null);
      if (given.data.skip_http_redirect === 'true') return new RawReply(JSON.stringify({ url: address }));
      return leadTo(call, address);
    },
  }),
  rawEndpoint({
    ...open,
    method: 'get',
    path: `${authRoot}/callback`,
    summary: 'Where other providers answer; leads back to the application',
    handle: callback,
  }),
  rawEndpoint({
    ...open,
    method: 'post',
    path: `${authRoot}/callback`,
    summary: 'The same, by a form',
    handle: callback,
  }),
  endpoint({
    ...authCommon,
    access: authByUser,
    method: 'get',
    path: `${authRoot}/user/identities/authorize`,
    summary: 'Add another provider to the user of the access token',
    query,
    response: z.object({ url: z.string() }),
    handle: async ({ query: given }, call) => {
      const by = userOf(call);
      await requireOwner(call.deps.endUsers, call.project.id, by);
      return { url: await start(call, call.project, { ...given, skip_http_redirect: 'true' }, by) };
    },
  }),
  endpoint({
    ...authCommon,
    access: authByUser,
    method: 'delete',
    path: `${authRoot}/user/identities/{identity_id}`,
    summary: 'Take a way to sign in from the user of the access token; the last one stays',
    params: z.object({ ref: z.string(), identity_id: id }),
    status: 200,
    response: z.object({}),
    handle: async ({ params: { identity_id: identityId } }, call) => {
      const { id: userId } = await requireOwner(call.deps.endUsers, call.project.id, userOf(call));
      await unlinkIdentity(call.deps.endUsers, call.project.id, { userId, identityId });
      return {};
    },
  }),
];
