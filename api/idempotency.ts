import { createHash } from 'node:crypto';
import type { Context } from 'koa';
import type { DataCaller } from '#domain/data-api/data-api.ts';
import type { Once } from '#domain/database/console/owner-key.ts';
import type { IdempotencyKey } from '#domain/idempotency/idempotency.ts';
import { ServiceError } from '#lib/errors.ts';
import type { Access } from './access.ts';
import { addressOf, networkOf } from './address.ts';
import type { AnyCaller, BaseCall, DataCall } from './call.ts';

/** The subject of an end user's token, which each token has; undefined for the claims that stand for a key. */
const subjectOf = ({ claims }: DataCaller): string | undefined => {
  const { sub } = JSON.parse(claims === '' ? '{}' : claims) as { sub?: unknown };
  return typeof sub === 'string' || sub === undefined ? sub : JSON.stringify(sub);
};

/**
 * The space that a key lies in. Members of the project, secret keys, publishable keys and the tokens of each end user
 * have one each, whatever key comes with a token: an answer for one of them is not repeated to another. Of a token its
 * role and subject count, since the other claims change with each token. Callers without credentials have the space of
 * their network: a stranger could take the keys that others will use, or ask for their answers.
 */
const spaceInProject = (
  { project, key, caller, isPublic }: AnyCaller & Partial<DataCall>,
  ctx: Context,
): string | undefined => {
  if (project === undefined) return undefined;
  if (isPublic === true) return `${project.id} public ${networkOf(addressOf(ctx))}`;
  const subject = caller && subjectOf(caller);
  if (caller !== undefined && subject !== undefined) return `${project.id} ${caller.role} token ${subject}`;
  return key ? `${project.id} ${key.kind} key` : project.id;
};

/** Operators share one token, and so their keys. */
const ownerOf = (access: Access, caller: AnyCaller, ctx: Context): string | undefined =>
  access.kind === 'operator' ? 'operators' : (spaceInProject(caller, ctx) ?? caller.user?.id);

/**
 * The request's `Idempotency-Key` within its project, its user or the operators; undefined where there is none, and for
 * strangers.
 * @throws {ServiceError} `validation_failed` when it is not 1 to 255 printable characters
 */
export const idempotencyKeyOf = (
  ctx: Context,
  access: Access,
  caller: AnyCaller,
  bodyText: string,
): IdempotencyKey | undefined => {
  const key = ctx.get('idempotency-key');
  const owner = ownerOf(access, caller, ctx);
  if (ctx.method !== 'POST' || key === '' || owner === undefined) return undefined;
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    const message = 'must be 1 to 255 printable ASCII characters';
    throw new ServiceError('validation_failed', 'The Idempotency-Key is not usable.', {
      details: [{ path: 'Idempotency-Key', message }],
    });
  }
  // The organization comes in a header: the same call in another one is another request.
  const target = `${ctx.method} ${ctx.path} ${caller.organization?.id ?? ''}\n`;
  return { scope: owner, key, fingerprint: createHash('sha256').update(target).update(bodyText).digest() };
};

/** For what is kept in a project's database; an earlier answer is marked in the headers. */
export const onceOf = (key: IdempotencyKey | undefined, setHeader: BaseCall['setHeader']): Once | undefined =>
  key && { key, replayed: () => setHeader('Idempotent-Replayed', 'true') };

/**
 * In this process requests with the same key run one after the other, so that they do not each hold one of the
 * project's few connections while they wait; between processes the database makes them wait.
 */
export const inTurn = <T>(
  { deps, setHeader }: Pick<BaseCall, 'deps' | 'setHeader'>,
  key: IdempotencyKey | undefined,
  work: (once: Once | undefined) => Promise<T>,
): Promise<T> => {
  const once = onceOf(key, setHeader);
  return key === undefined ? work(once) : deps.serialize(`${key.scope} ${key.key}`, () => work(once));
};
