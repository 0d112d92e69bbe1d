import type { Context } from 'koa';
import { isPublic } from '#domain/functions/functions.ts';
import { looksLikeApiKey } from '#domain/projects/api-keys.ts';
import type { Project } from '#domain/projects/store.ts';
import { addLogContext } from '#lib/context.ts';
import type { WithKey } from '../access.ts';
import type { DataCall, KeyCall } from '../call.ts';
import type { Deps } from '../deps.ts';
import { authenticateByKey, jwtForm, keyCaller } from './by-key.ts';
import { bearerOf } from './credentials.ts';

/** The credentials of a request that are ours, by their form alone. */
interface OwnCredentials {
  readonly apiKey: string | undefined;
  readonly token: string | undefined;
  /** Something else stands in a header for credentials. */
  readonly hasForeign: boolean;
}

const ownKeyOf = (texts: readonly string[]): string | undefined => texts.find(looksLikeApiKey);

const ownCredentialsOf = (ctx: Context, { tokens }: Pick<Deps, 'tokens'>): OwnCredentials => {
  const bearer = bearerOf(ctx);
  const keys = [ctx.get('apikey'), ctx.get('x-api-key')].filter((text) => text !== '');
  const isToken = bearer !== undefined && jwtForm.test(bearer) && tokens.projectOf(bearer) !== null;
  const isOwn = isToken || (bearer !== undefined && looksLikeApiKey(bearer));
  return {
    apiKey: ownKeyOf(isOwn && !isToken ? [...keys, bearer] : keys),
    token: isToken ? bearer : undefined,
    hasForeign: (ctx.get('authorization') !== '' && !isOwn) || !keys.every(looksLikeApiKey),
  };
};

/** Whether the header `Authorization` is another service's, which a public function may read. */
export const hasForeignAuthorization = (authorization: string, tokens: Deps['tokens']): boolean => {
  const bearer = /^Bearer +(.*)$/i.exec(authorization)?.[1]?.trim();
  if (bearer === undefined) return authorization !== '';
  return jwtForm.test(bearer) ? tokens.projectOf(bearer) === null : !looksLikeApiKey(bearer);
};

const publicCallOf = (project: Project): DataCall => {
  addLogContext({ projectId: project.id });
  return { project, key: null, caller: keyCaller(project, undefined), isPublic: true };
};

const projectOf = async (
  { keys }: Pick<Deps, 'keys'>,
  ref: string | undefined,
  apiKey: string | undefined,
): Promise<Project | undefined> => {
  if (ref !== undefined) return keys.findProject(ref);
  return apiKey === undefined ? undefined : (await keys.find(apiKey))?.project;
};

/**
 * Authenticates a caller of a function at its public address. Credentials of ours count wherever they are; where there
 * are none, or others beside them, the function decides. Of one that is not public a stranger learns nothing: the answer
 * is the same as for one that does not exist.
 * @throws {ServiceError} as `authenticateByKey`
 */
export const authenticateForFunction = async (
  ctx: Context,
  deps: Deps,
  access: WithKey,
  { ref, slug = '' }: Readonly<Record<string, string>>,
): Promise<KeyCall | DataCall> => {
  const { apiKey, token, hasForeign } = ownCredentialsOf(ctx, deps);
  const isOwn = apiKey !== undefined || token !== undefined;
  if (isOwn && !hasForeign) return authenticateByKey(ctx, deps, access, { ref });
  const project = await projectOf(deps, ref, apiKey);
  if (project === undefined || !(await isPublic(deps.functionVersions, project.id, slug)))
    return authenticateByKey(ctx, deps, access, { ref });
  if (!isOwn) return publicCallOf(project);
  return authenticateByKey(ctx, deps, access, { ref, credentials: { apiKey, token } });
};
