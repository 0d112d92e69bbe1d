import type { Ai } from '#domain/ai/ai.ts';
import type { ProjectLog } from '#domain/logs/project-log.ts';
import type { ProjectStats } from '#domain/stats/project-stats.ts';
import type { Flags } from '#domain/flags/open.ts';
import type { Members } from '#domain/accounts/callers.ts';
import type { CredentialUse } from '#domain/accounts/use.ts';
import type { Assistant } from '#domain/assistant/assistant.ts';
import type { DatabaseServers } from '#domain/database-servers/database-servers.ts';
import type { Compiler } from '#domain/functions/compiler.ts';
import type { FunctionVersions } from '#domain/functions/functions.ts';
import type { PythonChecker } from '#domain/functions/python.ts';
import type { Paypal } from '#domain/integrations/paypal.ts';
import type { WaitingMarks } from '#domain/events/marks.ts';
import type { Jobs } from '#domain/jobs/jobs.ts';
import type { Projects } from '#domain/projects/projects.ts';
import type { MailPreviews } from '#domain/email/previews.ts';
import type { PlatformMail } from '#domain/mail/mail.ts';
import type { ByteBudget } from '#lib/byte-budget.ts';
import type { Config } from '#lib/config.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Egress } from '#lib/egress.ts';
import type { JsonParser } from '#lib/json-parser.ts';
import type { Log } from '#lib/log.ts';
import type { Poller } from '#lib/poller.ts';
import type { Sealer } from '#lib/secrets.ts';
import type { Gate } from '#queues/gate/types.ts';
import type { DataDb, LinesDb } from '#domain/data-api/data-api.ts';
import type { SchemaCache } from '#domain/data-api/schema/schema.ts';
import type { Issuers } from '#domain/oauth/issuers.ts';
import type { OAuthDeps } from '#domain/oauth/oauth.ts';
import type { EndUserDeps } from '#domain/end-users/end-users.ts';
import type { TokenVerifier } from '#domain/end-users/tokens.ts';
import type { Resumable } from '#domain/storage/resumable.ts';
import type { StorageDeps } from '#domain/storage/storage.ts';
import type { KeyHolders } from '#domain/projects/api-keys.ts';
import type { Subscriber } from '#queues/signals.ts';
import type { Serialize } from '#lib/serialize.ts';
import type { RateLimiter } from './rate-limit.ts';
import type { Unsent } from './http/unsent.ts';
import type { ReadSmallFile } from './storage/small-files.ts';
import type { Transfers } from './storage/transfers.ts';

/** The dependencies of endpoints; made once in `server.ts` (or by a test) and passed to every call. */
export interface Deps {
  readonly config: Config;
  readonly log: Log;
  readonly db: ControlDb;
  readonly compiler: Compiler;
  readonly python: PythonChecker;
  readonly jobs: Jobs;
  readonly gate: Gate;
  /** For those who follow a job while it lives. */
  readonly subscriber: Subscriber;
  readonly projects: Projects;
  /** For what only the platform's own role may ask of a server of projects. */
  readonly servers: Pick<DatabaseServers, 'admin' | 'connectTo'>;
  readonly keys: KeyHolders;
  /** Tokens of projects' own users. */
  readonly tokens: TokenVerifier;
  /** Sign-in of projects' own users. */
  readonly endUsers: EndUserDeps;
  /** The OpenID providers of projects. */
  readonly oauth: OAuthDeps;
  readonly issuers: Pick<Issuers, 'of'>;
  /** The data API's way into projects' databases. */
  readonly data: DataDb & LinesDb;
  readonly schemas: SchemaCache;
  /** Files of projects. */
  readonly storage: StorageDeps;
  /** Uploads that survive a lost connection. */
  readonly resumable: Resumable;
  /** Files on their way in and out. */
  readonly smallFiles: ReadSmallFile;
  readonly transfers: Transfers;
  /** Says that a project's tables were written to, so that their events are fetched soon. */
  readonly events: { readonly markDirty: (projectId: string) => Promise<void> } & WaitingMarks;
  /** Requests of projects, counted in memory. */
  readonly stats: ProjectStats;
  readonly projectLog: ProjectLog;
  /** Feature flags, compiled and in memory. */
  readonly flags: Flags;
  /** To be called once a project or one of its keys was changed: all processes drop their cached data of it. */
  readonly projectChanged: (projectId: string) => Promise<void>;
  /** The one way out, for what is checked or asked while a caller waits. */
  readonly egress: Egress;
  /** For JSON of strangers. */
  readonly json: JsonParser;
  /** Seals and opens the platform's own secrets. */
  readonly sealer: Sealer;
  /** Asks PayPal whether calls are its own. */
  readonly paypal: Paypal;
  /** Models: the gateway, its keys and what calls cost. */
  readonly ai: Ai;
  readonly assistant: Assistant;
  readonly mail: PlatformMail;
  /** Sends links to reset passwords, beside the answers to those who ask for them. */
  readonly resets: Pick<Poller, 'wake'>;
  /** Sends mails to projects' users, beside the answers to those who ask for them. */
  readonly endUserMails: Pick<Poller, 'wake'>;
  /** Templates that somebody writes, as the frame beside the editor shows them. */
  readonly mailPreviews: MailPreviews;
  /** Members of projects, by the access token that they show. */
  readonly members: Members;
  /** Notes when cookies and personal access tokens were used. */
  readonly credentialUse: CredentialUse;
  /** Functions as callers name them. */
  readonly functionVersions: FunctionVersions;
  readonly rateLimiter: RateLimiter;
  /** Request bodies in memory, by project. */
  readonly bodies: ByteBudget;
  /** Answers on their way. */
  readonly unsent: Unsent;
  /** For requests with the same `Idempotency-Key`. */
  readonly serialize: Serialize;
  readonly health: Health;
}

export interface Health {
  /** Each dependency by name, true when it answers: those that every request needs, and those that some need. */
  readonly check: () => Promise<Readonly<Record<'needed' | 'others', Readonly<Record<string, boolean>>>>>;
  /** False once the process begins to stop. */
  readonly accepting: () => boolean;
}
