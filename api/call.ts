import type { IncomingHttpHeaders } from 'node:http';
import type { Deps } from './deps.ts';
import type { Access, Everyone, InOrganization, InProject, Operator, SignedIn, WithKey } from './access.ts';
import type { Credential } from '#domain/accounts/callers.ts';
import type { Actor } from '#domain/audit/actor.ts';
import type { User } from '#domain/users/users.ts';
import type { DataCaller } from '#domain/data-api/data-api.ts';
import type { Starter } from '#domain/jobs/store.ts';
import type { ApiKey } from '#domain/projects/api-keys.ts';
import type { RecalledMember } from '#domain/functions/functions.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Organization, Role } from '#domain/teams/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Disconnection } from '#lib/disconnection.ts';

/** A request as it came. */
export interface HttpRequest {
  /** In capitals; `HEAD` comes to the endpoints of GET. */
  readonly method: string;
  /** Undecoded. */
  readonly path: string;
  /** The text after the `?`, undecoded. */
  readonly queryText: string;
  readonly headers: IncomingHttpHeaders;
  readonly host: string;
  /** It came to the host name of a project, and not to the platform's. */
  readonly isOwnHost: boolean;
}

/** The facts about a request that every handler has beyond its input. */
export interface BaseCall {
  readonly deps: Deps;
  /** Reads outside a transaction; in an endpoint that changes something, the transaction of the whole call. */
  readonly db: Queryable;
  readonly requestId: string;
  readonly ip: string;
  /** Asked from this very machine, not through a proxy. */
  readonly isLocal: boolean;
  readonly userAgent: string | undefined;
  readonly http: HttpRequest;
  /** The text after `Authorization: Bearer`, unchecked. */
  readonly bearer: string | undefined;
  /** The header of that name: the version of a thing that a change is meant for. */
  readonly ifMatch: string | undefined;
  /** The client asks for server-sent events. */
  readonly wantsEvents: boolean;
  /** Scheme and host as clients see them, without a slash at the end. */
  readonly baseUrl: string;
  readonly actor: Actor;
  /** As whom it starts jobs. */
  readonly starter: Starter;
  /** Aborted when the client goes away before it is answered. */
  readonly signal: AbortSignal;
  /** The same for those who only listen. */
  readonly disconnection: Disconnection;
  readonly setHeader: (name: string, value: string | readonly string[]) => void;
  /** Fields of the line that the log of the project gets for this request, where it gets one. */
  readonly noteLine: (fields: Readonly<Record<string, unknown>>) => void;
  /** Runs after the transaction is committed, before the answer goes out. */
  readonly afterCommit: (work: () => Promise<void>) => void;
  /** The same call with a transaction in place of the database. */
  readonly within: (db: Queryable) => BaseCall;
}

/** A valid sign-in of a user. */
export interface SignInCall {
  readonly user: User;
  readonly signInId: string;
  readonly credential: Credential;
}

export interface ProjectCall extends SignInCall {
  readonly project: Project;
  /** The member's, or less where a token's scope allows less. */
  readonly role: Role;
  /** Left out: the database was asked. */
  readonly member?: RecalledMember | undefined;
}

export interface OrganizationCall extends SignInCall {
  readonly organization: Organization;
  readonly role: Role;
}

export interface KeyCall {
  readonly project: Project;
  readonly key: ApiKey;
}

/** By key, by the token of an end user, or both: the token decides as whom the project's database is used. */
export interface DataCall {
  readonly project: Project;
  /** Null: a token came alone. */
  readonly key: ApiKey | null;
  readonly caller: DataCaller;
  /** No credentials of ours came: only where the access is `orPublic`. */
  readonly isPublic?: true;
  /** A member of the project calls, who has no key: the answer goes to the origin of the platform's own pages. */
  readonly byMember?: true;
}

/** The caller, as far as the endpoint's access requires one. */
export type AnyCaller = Partial<SignInCall> &
  Partial<ProjectCall> &
  Partial<OrganizationCall> &
  Partial<KeyCall | DataCall>;

/** The facts that the access of an endpoint guarantees its handler. */
type Caller<A extends Access> = A extends InProject
  ? ProjectCall
  : A extends InOrganization
    ? OrganizationCall
    : A extends SignedIn
      ? SignInCall
      : A extends WithKey<infer Holder>
        ? 'user' extends Holder
          ? DataCall
          : KeyCall
        : A extends Everyone | Operator
          ? unknown
          : never;

export type Call<A extends Access> = BaseCall & Caller<A>;
