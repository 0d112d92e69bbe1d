import type { Account, Client, Configuration, KoaContextWithOIDC, Provider as OpenIdProvider } from 'oidc-provider';
import { tokenClaims } from '#domain/end-users/custom-claims.ts';
import type { AuthSettings } from '#domain/end-users/settings.ts';
import { findAccount, isBanned } from '#domain/end-users/users.ts';
import type { EndUserAccount } from '#domain/end-users/users.ts';
import { hashToken, newId } from '#lib/ids.ts';
import { type Amr, accessClaimsOf, claimsByScope, claimsOf } from './claims.ts';
import { scopes } from './clients.ts';
import { InvalidTarget, Provider } from './library.ts';
import { type Issuer, type OAuthDeps, accessSeconds } from './oauth.ts';
import { beginClientSession } from './sessions.ts';
import { storeOf } from './store.ts';
import { readAccessToken } from './token-status.ts';

/*
 * oidc-provider for one project. It does what runs in a browser (authorization, sessions, consent, log-out, devices) and
 * trades codes. What clients call often, or what it does otherwise than the contract says, is ours: discovery, keys,
 * refresh, revocation and introspection (decision 057).
 */

/** The pages that the library asks for; each sets the body of the answer. */
export interface ProviderPages {
  readonly error: (
    ctx: KoaContextWithOIDC,
    error: Readonly<{ error: string; error_description?: string | undefined }>,
  ) => Promise<void>;
  /** @param form the hidden fields of the form, and where it leads to */
  readonly logOut: (ctx: KoaContextWithOIDC, form: LibraryForm) => Promise<void>;
  readonly loggedOut: (ctx: KoaContextWithOIDC) => Promise<void>;
  readonly deviceCode: (ctx: KoaContextWithOIDC, form: LibraryForm, failure: string | null) => Promise<void>;
  readonly deviceConfirm: (
    ctx: KoaContextWithOIDC,
    form: LibraryForm,
    of: { client: string; code: string },
  ) => Promise<void>;
  readonly deviceDone: (ctx: KoaContextWithOIDC) => Promise<void>;
}

/** A form of the library, of which its text is known only. */
export interface LibraryForm {
  readonly action: string;
  readonly fields: Readonly<Record<string, string>>;
}

/** Where each part of the provider is, below the issuer. */
export const routes = {
  authorization: '/authorize',
  token: '/token',
  userinfo: '/userinfo',
  jwks: '/.well-known/jwks.json',
  end_session: '/logout',
  device_authorization: '/device/authorize',
  code_verification: '/device',
} as const;

const formField = /<input type="hidden" name="(\w+)" value="([^"]*)"\/>/g;

/** The library hands its forms over as text. */
const readForm = (action: string, text: string): LibraryForm => ({
  action,
  fields: Object.fromEntries([...text.matchAll(formField)].map(([, name = '', value = '']) => [name, value])),
});

/** A user as the library knows them, with the row that it does not. */
interface HostedAccount extends Account {
  readonly user: EndUserAccount;
}

const accountOf = (user: EndUserAccount): HostedAccount => ({
  accountId: user.id,
  user,
  claims: (_use, scope) => Promise.resolve({ ...claimsOf(user, scope), sub: user.id }),
});

const userOf = (ctx: KoaContextWithOIDC): EndUserAccount => {
  const account = ctx.oidc.account as Partial<HostedAccount> | undefined;
  if (account?.user === undefined) throw new Error('a token is issued for a user that was not found');
  return account.user;
};

/** The id of the sign-in that a request to the token endpoint begins: its access token names it before the row is there. */
const sessionIdOf = (ctx: KoaContextWithOIDC): string => {
  const state = ctx.state as { oauthSessionId?: string };
  return (state.oauthSessionId ??= newId());
};

const resourceIndicators = ({ audience }: Issuer) => ({
  enabled: true,
  defaultResource: () => audience,
  useGrantedResource: () => true,
  getResourceServerInfo: (_ctx: KoaContextWithOIDC, resource: string) => {
    if (resource !== audience) throw new InvalidTarget();
    return {
      scope: scopes.join(' '),
      audience,
      accessTokenTTL: accessSeconds,
      accessTokenFormat: 'jwt' as const,
      jwt: { sign: { alg: 'RS256' as const } },
    };
  },
});

const deviceSeconds = 600;
const codeSeconds = 60;
const interactionSeconds = 1800;

/** How long a browser that is not used stays signed in to the provider at most, whatever a project's sign-ins may last. */
const maxBrowserSeconds = 14 * 86_400;
/** How long a browser is remembered in which nobody signed in. */
const strangerSeconds = 3600;

const lifetimes = ({ session }: AuthSettings): Configuration['ttl'] => ({
  AccessToken: accessSeconds,
  AuthorizationCode: codeSeconds,
  ClientCredentials: accessSeconds,
  DeviceCode: deviceSeconds,
  Grant: session.absolute_s,
  IdToken: accessSeconds,
  Interaction: interactionSeconds,
  RefreshToken: session.idle_s,
  Session: (_ctx, { accountId, loginTs = 0 }) => {
    if (accountId === undefined) return strangerSeconds;
    // Each request prolongs it, but not beyond the end that every sign-in has.
    const left = loginTs + session.absolute_s - Math.floor(Date.now() / 1000);
    return Math.max(1, Math.min(session.idle_s, maxBrowserSeconds, left));
  },
});

/** Clients that wait are not told how a code of their user's went, beyond what RFC 8628 says. */
const failureOf = (error: { readonly name?: string } | undefined): string | null => error?.name ?? null;

const featuresOf = (issuer: Issuer, pages: ProviderPages): Configuration['features'] => ({
  devInteractions: { enabled: false },
  dPoP: { enabled: false },
  pushedAuthorizationRequests: { enabled: false },
  clientCredentials: { enabled: true },
  backchannelLogout: { enabled: true },
  resourceIndicators: resourceIndicators(issuer),
  rpInitiatedLogout: {
    enabled: true,
    logoutSource: (ctx, form) => pages.logOut(ctx, readForm(`${issuer.url}${routes.end_session}/confirm`, form)),
    postLogoutSuccessSource: (ctx) => pages.loggedOut(ctx),
  },
  deviceFlow: {
    enabled: true,
    charset: 'base-20',
    mask: '****-****',
    deviceInfo: () => ({}),
    userCodeInputSource: (ctx, form, _out, error) =>
      pages.deviceCode(ctx, readForm(`${issuer.url}${routes.code_verification}`, form), failureOf(error)),
    userCodeConfirmSource: (ctx, form, ...[client, , code]) =>
      pages.deviceConfirm(ctx, readForm(`${issuer.url}${routes.code_verification}`, form), {
        client: client.clientName ?? client.clientId,
        code,
      }),
    successSource: (ctx) => pages.deviceDone(ctx),
  },
});

const postTimeoutMs = 5000;

/** The one way out of the library: it tells clients of a log-out. */
const createFetch =
  ({ egress }: OAuthDeps): typeof fetch =>
  async (url, { body, headers } = {}) => {
    const { status } = await egress.fetch(url instanceof Request ? url.url : url.toString(), {
      for: 'platform',
      method: 'POST',
      headers: Object.fromEntries(new Headers(headers)),
      body: body instanceof URLSearchParams ? body.toString() : null,
      timeoutMs: postTimeoutMs,
      maxBytes: 1024,
    });
    return new Response(null, { status: status === 204 ? 204 : Math.max(status, 200) });
  };

/** The access that the user allowed this client before, in this browser: then nothing is asked for again. */
const loadExistingGrant: Configuration['loadExistingGrant'] = (ctx) => {
  const { result, session, client, provider } = ctx.oidc;
  const id = result?.consent?.grantId ?? (client && session?.grantIdFor(client.clientId));
  return Promise.resolve(id ? provider.Grant.find(id) : undefined);
};

const configurationOf = (
  deps: OAuthDeps,
  issuer: Issuer,
  { settings, jwks, pages }: { settings: AuthSettings; jwks: Configuration['jwks']; pages: ProviderPages },
): Configuration => {
  const { pathname: path } = new URL(issuer.url);
  const cookie = { path, httpOnly: true, sameSite: 'lax', signed: false } as const;
  return {
    adapter: (model) => storeOf(deps, issuer, model),
    jwks,
    routes,
    scopes: [...scopes],
    claims: {
      // The last two are in the id token alone.
      openid: [...claimsByScope.openid, 'amr', 'auth_time'],
      email: [...claimsByScope.email],
      profile: [...claimsByScope.profile],
    },
    responseTypes: ['code'],
    clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'none'],
    enabledJWA: { idTokenSigningAlgValues: ['RS256', 'ES256'] },
    pkce: { required: () => true },
    conformIdTokenClaims: false,
    allowOmittingSingleRegisteredRedirectUri: false,
    clientBasedCORS: () => true,
    clockTolerance: 15,
    ttl: lifetimes(settings),
    cookies: { long: cookie, short: cookie },
    features: featuresOf(issuer, pages),
    fetch: createFetch(deps),
    interactions: { url: (_ctx, { uid }) => `${path}/interaction/${uid}` },
    loadExistingGrant,
    findAccount: async (_ctx, id) => {
      const user = await findAccount(deps.endUsers.authDb, issuer.project.id, id);
      return user === undefined || isBanned(user) ? undefined : accountOf(user);
    },
    issueRefreshToken: (_ctx, client) => Promise.resolve(client.grantTypeAllowed('refresh_token')),
    revokeGrantPolicy: () => true,
    renderError: (ctx, out) => pages.error(ctx, out),
    formats: {
      customizers: {
        jwt: async (ctx, token, { payload }) => {
          if (!('accountId' in token) || token.accountId === undefined || payload === undefined) return;
          const source = ctx.oidc.entities.AuthorizationCode ?? ctx.oidc.entities.DeviceCode;
          const user = userOf(ctx);
          const claims = accessClaimsOf(user, {
            id: sessionIdOf(ctx),
            clientId: String(token.clientId),
            scope: String(token.scope),
            amr: (source?.amr ?? ['pwd']) as Amr,
          });
          Object.assign(payload, await tokenClaims(deps.endUsers, issuer.project, user, claims));
        },
      },
    },
  };
};

/** Secrets are kept as hashes: the one that counts, and the one before it for a while (store.ts). */
const compareSecret = function compareSecret(this: Client, given: string): boolean {
  const [now = '', former = '', until = ''] = (this.clientSecret ?? '').split(':');
  const hash = hashToken(given).toString('hex');
  return hash === now || (hash === former && Number(until) > Date.now());
};

/** Tokens of clients are rows of our own, and derived: the library neither writes nor finds them. */
const keepOwnTokens = (provider: OpenIdProvider, deps: OAuthDeps, issuer: Issuer): void => {
  const { RefreshToken, AccessToken } = provider;
  RefreshToken.prototype.save = async function save(): Promise<string> {
    const ctx = Provider.ctx as KoaContextWithOIDC;
    const { accountId, clientId = '', grantId = '', scope = '', authTime, amr, sid, nonce } = this;
    return beginClientSession(deps, issuer, {
      id: sessionIdOf(ctx),
      userId: accountId,
      clientId,
      grantId,
      scope,
      auth_time: authTime ?? Math.floor(Date.now() / 1000),
      amr: (amr ?? ['pwd']) as Amr,
      sid,
      nonce,
    });
  };
  Object.defineProperty(AccessToken, 'find', {
    value: async (value: string) => {
      const token = await readAccessToken(deps, issuer, value);
      if (token === null || token.session === null) return undefined;
      const { jti, sub, client_id: clientId, scope, iat, exp } = token.claims;
      return new AccessToken({
        jti,
        kind: 'AccessToken',
        accountId: sub,
        clientId,
        scope,
        grantId: token.session.grant_id,
        iat,
        exp,
      } as never);
    },
  });
};

type BrowserSession = InstanceType<OpenIdProvider['Session']>;

/** A page for a failed request must not fail itself: the library would keep a session that was never saved. */
const persistSaved = function persistSaved(this: BrowserSession): Promise<string> {
  const { exp } = this as { exp?: number };
  return exp === undefined ? Promise.resolve('') : this.save(exp - Math.floor(Date.now() / 1000));
};

/** Whether cookies go over TLS alone, also where a proxy in front of us speaks it. */
const secureCookies = (provider: OpenIdProvider, isSecure: boolean): void => {
  if (!isSecure) return;
  const createContext = provider.createContext.bind(provider);
  provider.createContext = (req, res) => {
    const ctx = createContext(req, res);
    ctx.cookies.secure = true;
    return ctx;
  };
};

/** @param pages how the provider looks */
export const createProvider = async (
  deps: OAuthDeps,
  issuer: Issuer,
  pages: ProviderPages,
): Promise<OpenIdProvider> => {
  const { endUsers } = deps;
  const [settings, keys] = await Promise.all([
    endUsers.settings.of(issuer.project.id),
    endUsers.keys.privateJwks(issuer.project),
  ]);
  const jwks = { keys } as NonNullable<Configuration['jwks']>;
  const provider = new Provider(issuer.url, configurationOf(deps, issuer, { settings, jwks, pages }));
  provider.proxy = false;
  // As shipped, addresses are made from the Host header, which a stranger chooses.
  Object.defineProperty(Reflect.get(provider, 'OIDCContext').prototype, 'urlFor', {
    value: (name: string, options?: Record<string, unknown>) => provider.urlFor(name, options),
  });
  Object.defineProperty(provider.Client.prototype, 'compareClientSecret', { value: compareSecret });
  keepOwnTokens(provider, deps, issuer);
  provider.Session.prototype.persist = persistSaved;
  secureCookies(provider, issuer.url.startsWith('https:'));
  provider.on('server_error', (ctx, error) => {
    (ctx.state as { oauthFault?: Error }).oauthFault = error;
  });
  provider.on('backchannel.error', (_ctx, error: unknown, client: Client) =>
    deps.log.warn(
      { err: error, project_id: issuer.project.id, client_id: client.clientId },
      'a client could not be told of a log-out',
    ),
  );
  return provider;
};
