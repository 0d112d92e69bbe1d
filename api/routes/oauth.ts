import { z } from 'zod';
import { signingAlgorithms } from '#domain/end-users/keys.ts';
import type { ClientRequest } from '#domain/oauth/client-auth.ts';
import { claimsByScope } from '#domain/oauth/claims.ts';
import { grantTypes, scopes } from '#domain/oauth/clients.ts';
import { OAuthError } from '#domain/oauth/errors.ts';
import { routes } from '#domain/oauth/provider.ts';
import { refreshTokens } from '#domain/oauth/refresh.ts';
import { introspectToken, revokeToken } from '#domain/oauth/token-status.ts';
import { ServiceError } from '#lib/errors.ts';
import { everyone } from '../access.ts';
import type { BaseCall } from '../call.ts';
import { type Endpoint, RawReply, endpoint } from '../endpoint.ts';
import { id } from '../fields.ts';
import { answerByProvider, issuerOf, oauthRoot, publishedIssuer } from '../oauth-call.ts';
import { htmlType } from '../pages/html.ts';
import { type RawRequest, rawEndpoint } from '../raw-endpoint.ts';

const area = 'oauth';

const formType = /^application\/x-www-form-urlencoded\b/i;
const maxFormBytes = 16 * 1024;
/** A request for a sign-in is kept until its user is done. */
const maxQueryLength = 8 * 1024;

const readForm = async (request: RawRequest): Promise<Buffer> => {
  if (!formType.test(request.header('content-type'))) {
    throw new OAuthError('invalid_request', 'The body must be a form (application/x-www-form-urlencoded).');
  }
  const body = await request.body();
  // PostgreSQL holds no NUL; addresses with one are refused before they come here.
  if (body.includes('%00') || body.includes(0))
    throw new OAuthError('invalid_request', 'The form must not contain NUL.');
  if (body.length <= maxFormBytes) return body;
  throw new ServiceError('payload_too_large', `The form is longer than ${maxFormBytes} bytes.`);
};

const requireShortQuery = ({ queryText }: RawRequest): void => {
  if (queryText.length <= maxQueryLength) return;
  throw new ServiceError('uri_too_long', `The query is longer than ${maxQueryLength} bytes.`);
};

const clientRequestOf = (request: RawRequest, body: Buffer): ClientRequest => ({
  form: new URLSearchParams(body.toString()),
  authorization: request.header('authorization'),
});

const json = (value: unknown): RawReply => new RawReply(JSON.stringify(value));

/** A call of a client, to which the answer is ours. */
const clientCall =
  (
    answer: (call: BaseCall, issuer: Awaited<ReturnType<typeof issuerOf>>, request: ClientRequest) => Promise<RawReply>,
  ) =>
  async (request: RawRequest, call: BaseCall): Promise<RawReply> => {
    const issuer = await issuerOf(call, request.params['project_id']);
    return answer(call, issuer, clientRequestOf(request, await readForm(request)));
  };

/** A request that oidc-provider answers. */
const byProvider = async (request: RawRequest, call: BaseCall): Promise<RawReply> => {
  requireShortQuery(request);
  const issuer = await issuerOf(call, request.params['project_id']);
  const hasBody = request.method === 'POST' && request.header('content-type') !== '';
  return answerByProvider(request, call, issuer, hasBody ? await readForm(request) : null);
};

/** Refreshing is what clients do most, and is ours. */
const token = async (request: RawRequest, call: BaseCall): Promise<RawReply> => {
  const issuer = await issuerOf(call, request.params['project_id']);
  const body = await readForm(request);
  const requested = clientRequestOf(request, body);
  if (requested.form.get('grant_type') !== 'refresh_token') return answerByProvider(request, call, issuer, body);
  return json(await refreshTokens(call.deps.oauth, issuer, requested));
};

/** A change of the platform's address or of what it offers is known after that. */
const discoveryMaxAgeSeconds = 300;

/** OpenID Connect Discovery 1.0 and RFC 8414, in one. */
const discovery = async (
  { params }: { readonly params: { readonly project_id: string } },
  call: BaseCall,
): Promise<RawReply> => {
  const { url } = await publishedIssuer(call, params.project_id);
  call.setHeader('Cache-Control', `public, max-age=${discoveryMaxAgeSeconds}`);
  return json({
    issuer: url,
    authorization_endpoint: url + routes.authorization,
    token_endpoint: url + routes.token,
    userinfo_endpoint: url + routes.userinfo,
    jwks_uri: url + routes.jwks,
    revocation_endpoint: `${url}/revoke`,
    introspection_endpoint: `${url}/introspect`,
    end_session_endpoint: url + routes.end_session,
    device_authorization_endpoint: url + routes.device_authorization,
    scopes_supported: [...scopes],
    response_types_supported: ['code'],
    response_modes_supported: ['query', 'fragment', 'form_post'],
    grant_types_supported: [...grantTypes],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: [...signingAlgorithms],
    token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
    revocation_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
    introspection_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
    code_challenge_methods_supported: ['S256'],
    claims_supported: [...Object.values(claimsByScope).flat(), 'iss', 'aud', 'exp', 'iat', 'auth_time', 'amr', 'sid'],
    ui_locales_supported: ['en', 'de'],
    authorization_response_iss_parameter_supported: true,
    request_parameter_supported: false,
    request_uri_parameter_supported: false,
    claims_parameter_supported: false,
    backchannel_logout_supported: true,
    backchannel_logout_session_supported: true,
  });
};

const discovered = z.looseObject({ issuer: z.string() });

const discoveryAt = (name: string, summary: string): Endpoint =>
  endpoint({
    method: 'get',
    path: `${oauthRoot}/.well-known/${name}`,
    anyOrigin: true,
    area,
    summary,
    access: everyone,
    params: z.object({ project_id: id }),
    response: discovered,
    handle: discovery,
  });

const browser = { area, access: everyone, rate: 'refresh', errors: 'page', mediaType: htmlType } as const;
const client = { area, access: everyone, rate: 'oauth', errors: 'oauth', anyOrigin: true } as const;

const pageOf = (method: 'get' | 'post', path: string, summary: string): Endpoint =>
  rawEndpoint({ ...browser, method, path: oauthRoot + path, summary, handle: byProvider });

const callOf = (method: 'get' | 'post', path: string, summary: string, handle = byProvider): Endpoint =>
  rawEndpoint({ ...client, method, path: oauthRoot + path, summary, handle });

/** The OpenID provider of a project (interface, "OAuth provider"; contract, section 9). */
export const oauthEndpoints: readonly Endpoint[] = [
  discoveryAt('openid-configuration', 'What the project’s OpenID provider offers, and where'),
  discoveryAt('oauth-authorization-server', 'The same, where clients of OAuth 2.0 look for it'),
  pageOf('get', routes.authorization, 'Send a user here to sign in; leads back with a code'),
  pageOf('post', routes.authorization, 'The same, by a form'),
  pageOf('get', `${routes.authorization}/{uid}`, 'Where the sign-in pages go on to'),
  callOf('post', routes.token, 'Trade a code or a refresh token for tokens', token),
  callOf('get', routes.userinfo, 'The user of an access token, as far as its scope goes'),
  callOf('post', routes.userinfo, 'The same, by POST'),
  callOf(
    'post',
    '/revoke',
    'End a sign-in, by its refresh or access token',
    clientCall(async ({ deps }, issuer, request) => {
      await revokeToken(deps.oauth, issuer, request);
      return json({});
    }),
  ),
  callOf(
    'post',
    '/introspect',
    'Whether a token of the client is good',
    clientCall(async ({ deps }, issuer, request) => json(await introspectToken(deps.oauth, issuer, request))),
  ),
  pageOf('get', routes.end_session, 'Sign out of the provider, and tell the clients'),
  pageOf('post', routes.end_session, 'The same, by a form'),
  pageOf('post', `${routes.end_session}/confirm`, 'Sign out, from that page'),
  pageOf('get', `${routes.end_session}/success`, 'The page after a sign-out'),
  // Each leaves a row behind: at the rate of browsers, not of servers.
  rawEndpoint({
    ...client,
    rate: 'refresh',
    method: 'post',
    path: oauthRoot + routes.device_authorization,
    summary: 'Ask for a code that a user enters elsewhere',
    handle: byProvider,
  }),
  pageOf('get', routes.code_verification, 'The page on which a user enters the code of a device'),
  pageOf('post', routes.code_verification, 'Go on with the code, from that page'),
  pageOf('get', `${routes.code_verification}/{uid}`, 'Where the sign-in pages go on to for a device'),
];
