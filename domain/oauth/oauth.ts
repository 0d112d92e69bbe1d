/*
 * The OpenID provider of each project (contract, section 9). The way through this folder: this file (what all of it
 * needs), clients.ts and redirect-uris.ts (who may ask for tokens), issuers.ts (one provider for each project, made when
 * it is needed), provider.ts (oidc-provider, configured), store.ts (what it keeps in the project's database), claims.ts,
 * sessions.ts (sign-ins of clients), client-auth.ts, refresh.ts and token-status.ts (calls of clients that we answer
 * ourselves), sign-in.ts (what the hosted pages ask).
 */
import type { EndUserDeps } from '#domain/end-users/end-users.ts';
import type { TokenVerifier } from '#domain/end-users/tokens.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Egress } from '#lib/egress.ts';
import type { Log } from '#lib/log.ts';
import type { ClientCache } from './clients.ts';

/** The parts of the platform that the OpenID provider needs. */
export interface OAuthDeps {
  readonly clients: Pick<ClientCache, 'of'>;
  readonly endUsers: EndUserDeps;
  readonly tokens: TokenVerifier;
  readonly egress: Pick<Egress, 'fetch'>;
  readonly log: Log;
}

/** A project as its tokens name it. */
export interface Issuer {
  readonly project: Project;
  /** `{base_url}/oauth/{project_id}` */
  readonly url: string;
  /** The project's `rest_url`: where access tokens are good for. */
  readonly audience: string;
}

/** In seconds. */
export const accessSeconds = 3600;
