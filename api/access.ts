import type { Scope } from '#domain/accounts/scopes.ts';
import type { Role } from '#domain/teams/store.ts';

/** The callers that an endpoint admits. Every endpoint declares one of these; the API refuses to start otherwise. */

const keyKinds = ['secret', 'publishable'] as const;
type KeyKind = (typeof keyKinds)[number];

export interface Everyone {
  readonly kind: 'everyone';
}
export interface SignedIn {
  readonly kind: 'signed-in';
  /** The scope that a personal access token needs. Left out: only a sign-in may call it. */
  readonly scope?: Scope;
  /** Only the cookie of the dashboard opens it: it is a page that a person looks at. */
  readonly byCookie?: true;
}
export interface InProject {
  readonly kind: 'project';
  /** The least role. Who is not a member learns nothing: 404. */
  readonly role: Role;
  /** The caller may be recalled from memory: the statement that inserts the job checks it. */
  readonly checkedByInsert?: true;
}
export interface InOrganization {
  readonly kind: 'organization';
  readonly role: Role;
}
/** The credentials that it takes; `user`: a token of one of the project's own users, beside a key or alone. */
export type KeyHolder = KeyKind | 'user';
export interface WithKey<Holder extends KeyHolder = KeyHolder> {
  readonly kind: 'key';
  readonly keys: readonly Holder[];
  /** Also while the project is not active: an endpoint that reads its database cannot report that. */
  readonly evenInactive?: true;
  /** Callers are recalled while PostgreSQL is away: for what is answered from memory. */
  readonly lastKnown?: true;
  /**
   * The function that the path names decides: one that is public takes callers without credentials, too, and what other
   * services send as theirs.
   */
  readonly orPublic?: true;
  /** Needs the token of a user; the endpoint itself finds out whether the user may still act, and says why not. */
  readonly byUser?: true;
}
export interface Operator {
  readonly kind: 'operator';
}
export type Access = Everyone | SignedIn | InProject | InOrganization | WithKey | Operator;

/** Anyone, signed in or not. */
export const everyone: Everyone = { kind: 'everyone' };
/** Any user with a valid access token, but for personal ones. */
export const signedIn: SignedIn = { kind: 'signed-in' };
/** Any user, by a personal access token of that scope, too. */
export const signedInWith = (scope: Scope): SignedIn => ({ kind: 'signed-in', scope });
/** A user who is signed in to the dashboard. */
export const signedInByCookie: SignedIn = { kind: 'signed-in', byCookie: true };
/** A member of the organization that owns the project of the path. */
export const inProject = (role: Role): InProject => ({ kind: 'project', role });
/** A member of the organization of `X-Org-Id`, else of the caller's own. */
export const inOrganization = (role: Role): InOrganization => ({ kind: 'organization', role });
/** A project's API key; the key names the project. */
export const withKey = <Holder extends KeyHolder>(...keys: Holder[]): WithKey<Holder> => ({ kind: 'key', keys });
/** The installation's operators: the ops token. */
export const operator: Operator = { kind: 'operator' };
