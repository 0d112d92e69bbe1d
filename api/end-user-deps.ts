import { requireSender } from '#domain/email/email.ts';
import { createAuthDb } from '#domain/end-users/auth-db.ts';
import type { EndUserDeps } from '#domain/end-users/end-users.ts';
import { createSigningKeys } from '#domain/end-users/keys.ts';
import { requestMail } from '#domain/end-users/mails.ts';
import { isTokenLive } from '#domain/end-users/sessions.ts';
import { createAuthSettings } from '#domain/end-users/settings.ts';
import { createTokenSigner, createTokenVerifier } from '#domain/end-users/tokens.ts';
import { createClientCache } from '#domain/oauth/clients.ts';
import { createIssuers } from '#domain/oauth/issuers.ts';
import type { OAuthDeps } from '#domain/oauth/oauth.ts';
import { type FunctionVersions, invocation, monthlyCaps } from '#domain/functions/functions.ts';
import type { Jobs } from '#domain/jobs/jobs.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import { newId } from '#lib/ids.ts';
import { ownAddress } from '#lib/own-address.ts';
import type { DataDepsOptions } from './data-api-deps.ts';
import type { Deps } from './deps.ts';
import { restUrl } from './http/rest-url.ts';
import { providerPagesOf } from './pages/hosted/provider-pages.ts';

interface EndUserOptions extends Pick<DataDepsOptions, 'config' | 'log' | 'platform' | 'subscriber' | 'egress'> {
  readonly jobs: Pick<Jobs, 'run'>;
  readonly functionVersions: FunctionVersions;
  readonly markDirty: (projectId: string) => Promise<void>;
}

/** A user waits for it to sign in. */
const claimsWaitMs = 2000;

const claimsRunner =
  ({ config, jobs, functionVersions }: EndUserOptions): EndUserDeps['runClaimsFunction'] =>
  async (project, functionId, payload) => {
    const request = await invocation(functionVersions, project, {
      by: { id: functionId },
      payload,
      trigger: 'api',
      requestId: newId(),
      caps: monthlyCaps(config),
    });
    const { outcome } = await jobs.run(request, claimsWaitMs);
    if (outcome === null) return undefined;
    if (outcome.error !== null) throw new Error(outcome.error.message);
    if (outcome.result === null) throw new Error('The function has no result.');
    return functionInvoke.result.parse(JSON.parse(outcome.result)).result;
  };

interface OpenedEndUsers {
  readonly deps: Pick<Deps, 'tokens' | 'endUsers' | 'oauth' | 'issuers'>;
  /** To be called when a project's settings or keys have changed. */
  readonly forget: (projectId: string) => void;
}

const mailsOf = ({ config, platform }: EndUserOptions): EndUserDeps['mails'] => {
  const { db } = platform;
  const local = config.PLINTH_LOCAL === 'on';
  return {
    request: (project, order) => requestMail({ db, sealer: platform.projects.sealer }, project, order),
    require: (project) => requireSender({ db, projects: platform.projects, local }, project),
  };
};

/** The sign-in of projects' own users. */
export const openEndUserDeps = (options: EndUserOptions): OpenedEndUsers => {
  const { config, log, platform, subscriber, egress, markDirty } = options;
  const { tenantDb, sealer } = platform.projects;
  const settings = createAuthSettings(platform.db, subscriber.isSubscribed);
  const keys = createSigningKeys(platform.db, sealer);
  const authDb = createAuthDb(tenantDb);
  const endUsers: EndUserDeps = {
    authDb,
    settings,
    keys,
    signer: createTokenSigner(keys),
    sealer,
    egress,
    log,
    isLimited: config.PLINTH_RATE_LIMITS === 'on',
    restUrlOf: (ref) => restUrl(ref, { deps: { config }, baseUrl: ownAddress(config) }),
    mails: mailsOf(options),
    runClaimsFunction: claimsRunner(options),
    markDirty: (projectId) => void markDirty(projectId),
  };
  const tokens = createTokenVerifier(keys, (projectId, owner) => isTokenLive({ authDb, settings }, projectId, owner));
  const clients = createClientCache(platform.db, subscriber.isSubscribed);
  const oauth: OAuthDeps = { clients, endUsers, tokens, egress, log };
  const issuers = createIssuers(oauth, (issuer) => providerPagesOf(oauth, issuer));
  return {
    deps: { tokens, endUsers, oauth, issuers },
    forget: (projectId) => {
      settings.forget(projectId);
      keys.forget(projectId);
      issuers.forget(projectId);
      clients.forget(projectId);
    },
  };
};
