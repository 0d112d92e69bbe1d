/*
 * The users of a project's own application. The way through this folder: this file (what all of it needs), settings.ts
 * (how a project wants its users to sign in), auth-db.ts (the two ways into the project's database), users.ts (rows),
 * sign-up.ts and sign-in.ts, attempts.ts (failures, counted), captcha.ts, sessions.ts and refresh-tokens.ts (a sign-in from its beginning to its end), factors.ts (second factors), passwords.ts with foreign-hashes.ts, decoys.ts
 * and breached-passwords.ts, imports.ts with import-reader.ts (users of another system),
 * links.ts, mails.ts, redirects.ts and flow-codes.ts (links in mails, and where they lead), profile.ts (what users
 * change about themselves), administration.ts and invites.ts (what the project's team does), custom-claims.ts, keys.ts and tokens.ts (signing and verifying access tokens), errors.ts.
 */
import type { Project } from '#domain/projects/store.ts';
import type { Egress } from '#lib/egress.ts';
import type { Log } from '#lib/log.ts';
import type { Sealer } from '#lib/secrets.ts';
import type { AuthDb } from './auth-db.ts';
import type { SigningKeys } from './keys.ts';
import type { MailOrder } from './mails.ts';
import type { AuthSettingsCache } from './settings.ts';
import type { TokenSigner } from './tokens.ts';

/** The parts of the platform that signing in needs. */
export interface EndUserDeps {
  readonly authDb: AuthDb;
  readonly settings: AuthSettingsCache;
  readonly keys: SigningKeys;
  readonly signer: TokenSigner;
  readonly sealer: (project: Pick<Project, 'id' | 'data_key'>) => Sealer;
  readonly egress: Pick<Egress, 'fetch'>;
  readonly log: Log;
  /** False with `PLINTH_RATE_LIMITS=off`. */
  readonly isLimited: boolean;
  /** The project's `rest_url`, for links that no request leads to. */
  readonly restUrlOf: (ref: string) => string;
  readonly mails: {
    /** Requests a mail; it is sent after the answer. */
    readonly request: (project: Pick<Project, 'id' | 'data_key'>, order: MailOrder) => Promise<void>;
    /** @throws {ServiceError} `smtp_not_configured` when nothing can send a mail of the project */
    readonly require: (project: Pick<Project, 'id' | 'name' | 'data_key'>) => Promise<void>;
  };
  /**
   * Runs a function of the project with a payload of JSON text.
   * @returns undefined when it takes longer than 2 s
   * @throws when it fails, or there is none
   */
  readonly runClaimsFunction: (project: Project, functionId: string, payload: string) => Promise<unknown>;
  /** Says that a project's outbox may hold an event. */
  readonly markDirty: (projectId: string) => void;
}

/** A request to sign in, or to sign up. */
export interface SignInCall {
  readonly project: Project;
  /** How tokens name the project. */
  readonly urls: { readonly issuer: string; readonly audience: string };
  readonly origin: {
    readonly ip: string;
    /** The addresses that the caller controls. */
    readonly network: string;
    readonly userAgent: string | undefined;
  };
}
