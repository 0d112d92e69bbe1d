import type { Context } from 'koa';
import type { DataCaller } from '#domain/data-api/data-api.ts';
import { type KeyHolder as FoundKey, looksLikeApiKey } from '#domain/projects/api-keys.ts';
import { type Project, statementTimeoutsOf } from '#domain/projects/store.ts';
import { addLogContext } from '#lib/context.ts';
import { ServiceError, isDependencyFailure } from '#lib/errors.ts';
import type { KeyHolder, WithKey } from '../access.ts';
import type { DataCall, KeyCall } from '../call.ts';
import type { Deps } from '../deps.ts';
import { bearerOf, unauthenticated } from './credentials.ts';

/** The credentials of a request: at most one API key, and at most one token of an end user. */
interface Credentials {
  readonly apiKey: string | undefined;
  readonly token: string | undefined;
}

export const jwtForm = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/**
 * API keys come as `apikey`, `x-api-key` or Bearer; a Bearer of the form of a JWT is an end user's token.
 * @throws {ServiceError} `unauthenticated` when there is none, or two that differ
 */
const credentialsOf = (ctx: Context): Credentials => {
  const bearer = bearerOf(ctx);
  const token = bearer !== undefined && jwtForm.test(bearer) ? bearer : undefined;
  const given = [ctx.get('apikey'), ctx.get('x-api-key'), token === undefined ? (bearer ?? '') : ''].filter(
    (text) => text !== '',
  );
  const [apiKey] = given;
  if (apiKey === undefined && token === undefined)
    throw unauthenticated('This call needs an API key (header apikey, x-api-key or Bearer).', false);
  if (given.some((other) => other !== apiKey)) throw unauthenticated('The request carries two different keys.', true);
  if (apiKey !== undefined && !looksLikeApiKey(apiKey))
    throw unauthenticated('This is not an API key of a project.', true);
  return { apiKey, token };
};

const requireFound = (found: FoundKey | undefined): FoundKey => {
  if (found === undefined) throw unauthenticated('The API key is not valid or has expired.', true);
  return found;
};

const invalidToken = () => unauthenticated('The access token is not valid or has expired.', true);

/** The project that a token alone means: it says so itself, and its signature must prove it. */
const projectOfToken = async (deps: Deps, token: string): Promise<Project> => {
  const id = deps.tokens.projectOf(token);
  const project = id === null ? undefined : await deps.keys.findProject(id);
  if (project === undefined) throw invalidToken();
  return project;
};

const ofKind = { secret: 'service', publishable: 'anon' } as const;

const claimsOf = { service: '{"role":"service_role"}', anon: '{"role":"anon"}' } as const;

/** @throws {ServiceError} `project_not_ready` */
export const requireActive = ({ status }: Project): void => {
  if (status !== 'active') throw new ServiceError('project_not_ready', `The project is ${status}, not active.`);
};

/** How long a statement of that role may take, in ms. */
export const timeoutOf = (project: Project, role: DataCaller['role']): number =>
  statementTimeoutsOf(project)[role === 'service' ? 'secret' : role];

export const keyCaller = (project: Project, found: FoundKey | undefined): DataCaller => {
  const role = ofKind[found?.key.kind ?? 'publishable'];
  return { projectId: project.id, role, claims: claimsOf[role], timeoutMs: timeoutOf(project, role) };
};

/** While PostgreSQL is away, whoever holds a token with a right signature counts as its user. */
const verifyLastKnown = async ({ tokens }: Deps, projectId: string, token: string) => {
  try {
    return await tokens.verify(projectId, token);
  } catch (error) {
    if (!isDependencyFailure(error)) throw error;
    return tokens.verifySignature(projectId, token);
  }
};

const verify = (deps: Deps, projectId: string, token: string, { byUser, lastKnown }: Partial<WithKey>) => {
  if (byUser === true) return deps.tokens.verifySignature(projectId, token);
  return lastKnown === true ? verifyLastKnown(deps, projectId, token) : deps.tokens.verify(projectId, token);
};

const userOf = async (
  deps: Deps,
  project: Project,
  token: string,
  access: Partial<WithKey> = {},
): Promise<DataCaller> => {
  const user = await verify(deps, project.id, token, access);
  if (user === null) throw invalidToken();
  return { projectId: project.id, ...user, timeoutMs: timeoutOf(project, user.role) };
};

/** A token of the project's own user decides the role and always wins (contract, section 1). */
const callerOf = (
  deps: Deps,
  project: Project,
  { token, found, access }: Pick<Given, 'token' | 'found'> & { readonly access: WithKey },
): DataCaller | Promise<DataCaller> =>
  token === undefined ? keyCaller(project, found) : userOf(deps, project, token, access);

const requireKind = (holders: readonly KeyHolder[], found: FoundKey | undefined): void => {
  if (found === undefined || holders.includes(found.key.kind)) return;
  throw new ServiceError('forbidden', `A ${found.key.kind} key may not do this.`);
};

const requireToken = ({ byUser }: WithKey, token: string | undefined): void => {
  if (byUser !== true || token !== undefined) return;
  throw unauthenticated('This call needs the access token of a user (Authorization: Bearer).', false);
};

interface Given extends Credentials {
  readonly project: Project;
  readonly found: FoundKey | undefined;
}

/** Where tokens are not accepted, the holder of a valid one gets that answer; an invalid one is refused as such. */
const requireKeyAlone = async (deps: Deps, { project, token, found }: Given): Promise<FoundKey> => {
  if (token === undefined) return requireFound(found);
  await userOf(deps, project, token);
  throw new ServiceError('forbidden', 'The token of a user may not do this; it needs a secret key without a token.');
};

/** @throws {ServiceError} `unauthenticated` */
const foundOf = async ({ keys, credentialUse }: Deps, { lastKnown }: WithKey, apiKey: string): Promise<FoundKey> => {
  const found = requireFound(await (lastKnown === true ? keys.findLastKnown(apiKey) : keys.find(apiKey)));
  credentialUse.noteKey(found.key.id);
  return found;
};

interface Named {
  /** The project of the path, if it names one. */
  readonly ref: string | undefined;
  /** Left out: all that the request has. */
  readonly credentials?: Credentials;
}

/**
 * Authenticates a caller by key, by an end user's token, or by both.
 * @throws {ServiceError} `unauthenticated`, `forbidden`
 */
export const authenticateByKey = async (
  ctx: Context,
  deps: Deps,
  access: WithKey,
  { ref, credentials = credentialsOf(ctx) }: Named,
): Promise<KeyCall | DataCall> => {
  const { keys: holders } = access;
  const { apiKey, token } = credentials;
  const found = apiKey === undefined ? undefined : await foundOf(deps, access, apiKey);
  const project = found?.project ?? (await projectOfToken(deps, token ?? ''));
  if (ref !== undefined && ref !== project.ref) throw unauthenticated('The API key is not one of this project.', true);
  addLogContext({ projectId: project.id });
  requireKind(holders, found);
  if (!holders.includes('user')) return requireKeyAlone(deps, { project, found, apiKey, token });
  requireToken(access, token);
  if (access.evenInactive !== true) requireActive(project);
  return { project, key: found?.key ?? null, caller: await callerOf(deps, project, { token, found, access }) };
};
