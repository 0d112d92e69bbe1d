import type { Context } from 'koa';
import type { NotedRequest } from '#domain/logs/project-log.ts';
import { type Surface, surfaceOf } from '#domain/stats/surfaces.ts';
import type { LineSource } from '#queues/signals.ts';
import type { AnyCaller } from './call.ts';
import { clientClosedRequest } from './errors.ts';
import { starterOf } from './starter.ts';

/** Makes the line that an answered request gets in its project's log. */

const sources: Readonly<Record<Surface, LineSource>> = {
  rest: 'data',
  graphql: 'data',
  auth: 'auth',
  storage: 'storage',
  ai: 'ai',
  functions: 'api',
  flags: 'api',
  management: 'api',
  other: 'api',
};

interface AnsweredRequest {
  readonly ctx: Context;
  readonly status: number;
  readonly ms: number;
  /** Without what lets somebody in. */
  readonly path: string;
}

/** A sign-in, or something else that a user does with the own account. A session goes on without anybody's doing. */
const isAccountChange = (ctx: Context): boolean =>
  ctx.method !== 'GET' && ctx.method !== 'HEAD' && ctx.query['grant_type'] !== 'refresh_token';

// The paths of these name tables and files; elsewhere secrets may be part of a path.
const withPath: ReadonlySet<LineSource> = new Set(['data', 'storage']);

interface Failure {
  readonly code: string;
  readonly message: string;
}

const levelOf = (status: number): NotedRequest['level'] => (status >= 500 ? 'error' : status >= 400 ? 'warn' : 'info');

const byOf = (caller: AnyCaller | undefined): Record<string, unknown> => {
  if (caller === undefined) return {};
  const { kind, id } = starterOf(caller);
  return { by: kind, ...(id !== null && { by_id: id }) };
};

/** Null: it says nothing. Failures are lines, and of sign-ins what went well, too. */
export const requestLineOf = ({ ctx, status, ms, path }: AnsweredRequest): NotedRequest | null => {
  const { method, state } = ctx;
  const [route, projectId, requestId]: unknown[] = [ctx['_matchedRoute'], state['projectId'], state['requestId']];
  if (typeof route !== 'string' || typeof projectId !== 'string' || typeof requestId !== 'string') return null;
  const source = sources[surfaceOf(route)];
  const failure = state['failure'] as Failure | undefined;
  const isNoted = failure === undefined ? source === 'auth' && isAccountChange(ctx) : true;
  if (!isNoted || status === clientClosedRequest) return null;
  const words = `${method} ${withPath.has(source) ? path : route.replaceAll(/:(\w+)/g, '{$1}')} ${status}`;
  return {
    projectId,
    source,
    level: levelOf(status),
    message: failure === undefined ? words : `${words}: ${failure.message}`,
    fields: {
      ...(failure !== undefined && { code: failure.code }),
      ms: Math.round(ms),
      ...byOf(state['caller'] as AnyCaller | undefined),
      ...(state['line'] as Record<string, unknown> | undefined),
    },
    requestId,
  };
};
