import { Router } from '@koa/router';
import Koa, { type Context, type Middleware } from 'koa';
import { type LogContext, logContext, withLogContext } from '#lib/context.ts';
import { decodeEscapes } from '#domain/storage/names.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { createRequestLog } from '#lib/request-line.ts';
import { isTracing, traced } from '#lib/tracing.ts';
import { compressAnswer } from './http/compress.ts';
import type { Deps } from './deps.ts';
import type { Endpoint, ErrorForm } from './endpoint.ts';
import { answerError } from './errors.ts';
import { handle } from './handle.ts';
import { surfaceOf } from '#domain/stats/surfaces.ts';
import { noteRequest } from './metrics.ts';
import { requestLineOf } from './request-lines.ts';
import { projectHosts } from './http/rest-url.ts';

const maxUrlLength = 128 * 1024;
const maxLoggedLength = 300;

const requestId: Middleware = (ctx, next) => {
  const given = ctx.get('x-request-id');
  const id = /^[\w-]{1,64}$/.test(given) ? given : newId();
  ctx.state['requestId'] = id;
  ctx.set('X-Request-Id', id);
  ctx.set('X-Content-Type-Options', 'nosniff');
  return withLogContext({ requestId: id }, next);
};

/** The path for the log: the token of an invite stands in it, and strangers choose its length. */
const loggedPath = (ctx: Context): string => {
  const end = ctx.url.indexOf('?');
  const path = ctx.url.slice(0, Math.min(end === -1 ? maxLoggedLength : end, maxLoggedLength));
  return path.includes('plinth_') ? path.replaceAll(/(plinth_[a-z]+_)[\w-]+/g, '$1[redacted]') : path;
};

interface Answered {
  readonly ctx: Context;
  readonly status: number;
  readonly ms: number;
  readonly context: LogContext;
}

/**
 * Answered requests are measured and logged once the answers are on their way, several of them in one turn of the event
 * loop.
 */
const createNotes = ({
  log,
  stats,
  projectLog,
}: Pick<Deps, 'log' | 'stats' | 'projectLog'>): ((answered: Answered) => void) => {
  const writeLine = createRequestLog(log);
  const noteOne = ({ ctx, status, ms, context }: Answered): void => {
    const { method } = ctx;
    const route: unknown = ctx['_matchedRoute'];
    try {
      noteRequest(typeof route === 'string' ? `${method} ${route}` : 'other', status, ms / 1000);
      const projectId: unknown = ctx.state['projectId'];
      if (typeof projectId === 'string' && typeof route === 'string')
        stats.note({ projectId, surface: surfaceOf(route), status, ms });
      const path = loggedPath(ctx);
      const line = requestLineOf({ ctx, status, ms, path });
      if (line !== null) projectLog.note(line);
      writeLine({ method, path, status, ms }, context);
    } catch (error) {
      log.error({ err: error }, 'the metrics of a request could not be recorded');
    }
  };
  let waiting: Answered[] = [];
  const flush = (): void => {
    const answered = waiting;
    waiting = [];
    for (const one of answered) noteOne(one);
  };
  return (answered) => {
    if (waiting.push(answered) === 1) setImmediate(flush);
  };
};

/** Whatever happens below is answered: in one middleware, since each that waits costs a promise. */
const answerAll = ({ log, health, unsent, stats, projectLog }: Deps): Middleware => {
  const note = createNotes({ log, stats, projectLog });
  return async (ctx, next) => {
    const began = performance.now();
    try {
      await next();
      unsent.take(ctx, ctx.state);
      await compressAnswer(ctx);
    } catch (thrown) {
      answerError(ctx, thrown, log);
    }
    // A stopping process lets go of its kept-alive connections with the answers that are still to come.
    if (!health.accepting()) ctx.set('Connection', 'close');
    note({ ctx, status: ctx.status, ms: performance.now() - began, context: logContext() });
  };
};

// Requests of load balancers and monitoring say nothing about the work.
const untraced = new Set(['/healthz', '/readyz', '/metrics']);

/** One span for each request; it belongs to the trace of the proxy before us, when that is believed and has one. */
const traceRequests =
  ({ config }: Deps): Middleware =>
  (ctx, next) => {
    if (!isTracing() || untraced.has(ctx.path)) return next();
    const { method } = ctx;
    const request = { 'http.request.method': method, 'url.path': loggedPath(ctx) };
    const attributes = { ...request, 'plinth.request.id': String(ctx.state['requestId']) };
    // A stranger could have all that he asks recorded, whatever PLINTH_TRACE_RATIO says.
    const parent = config.PLINTH_TRUST_PROXY === 'on' ? ctx.get('traceparent') : null;
    return traced('http request', attributes, parent, async (span) => {
      await next();
      const route: unknown = ctx['_matchedRoute'];
      if (typeof route === 'string') span.rename(`${method} ${route}`);
      span.set({ ...(typeof route === 'string' && { 'http.route': route }), 'http.response.status_code': ctx.status });
      if (ctx.status >= 500) span.fail(`answered ${ctx.status}`);
    });
  };

const notHttp = (why: string): ServiceError => new ServiceError('validation_failed', why);

/** The path and query of a request target, which may also be a whole URL (RFC 9112, 3.2.2). */
const originForm = (target: string): string => {
  if (target.startsWith('/')) return target;
  const url = URL.parse(target);
  if (url === null || !/^https?:$/.test(url.protocol)) throw notHttp('The request target is not a path.');
  return url.pathname + url.search;
};

/** Requests that the HTTP parser accepts and that nothing behind it should have to handle. */
const checkTarget: Middleware = (ctx, next) => {
  if (ctx.url.length > maxUrlLength)
    throw new ServiceError('uri_too_long', `The URL is longer than ${maxUrlLength} bytes.`);
  if (ctx.req.httpVersion === '1.1' && ctx.req.headers.host === undefined) throw notHttp('The Host header is missing.');
  if (ctx.url.includes('%00')) throw notHttp('The URL must not contain NUL.');
  ctx.url = originForm(ctx.url);
  return next();
};

// Key-authenticated calls come from browsers of any origin; cookies are never involved there.
const corsHeaders =
  'Authorization, Content-Type, apikey, x-api-key, Prefer, Range, Range-Unit, Accept-Profile, Content-Profile, Idempotency-Key, X-Request-Id, x-client-info, x-region, x-retry-count, x-supabase-api-version';
// Headers of uploads and of conditional requests for files; the last ones are those of tus.
const storageHeaders =
  'x-upsert, x-metadata, Cache-Control, If-Match, If-None-Match, If-Modified-Since, If-Range, Tus-Resumable, Upload-Length, Upload-Offset, Upload-Metadata, Upload-Checksum, Upload-Defer-Length, X-HTTP-Method-Override';
// OpenAI's clients say with each request what they run on.
const openAiHeaders =
  'OpenAI-Organization, OpenAI-Project, X-Stainless-Arch, X-Stainless-Helper-Method, X-Stainless-Lang, X-Stainless-OS, X-Stainless-Package-Version, X-Stainless-Retry-Count, X-Stainless-Runtime, X-Stainless-Runtime-Version, X-Stainless-Timeout';
const exposed =
  'Location, Preference-Applied, Content-Location, Range-Unit, Idempotent-Replayed, Subscription-Pending, X-Request-Id, X-Invocation-Id, X-Function-Version, Retry-After, RateLimit, RateLimit-Policy, X-Total-Count, Content-Range, X-Plinth-Dropped, X-Plinth-Warm-Start, Server-Timing, X-Should-Retry, Link, X-Supabase-Api-Version, ETag, Last-Modified, Accept-Ranges, Content-Disposition, Content-Length, Tus-Resumable, Tus-Version, Tus-Extension, Tus-Max-Size, Tus-Checksum-Algorithm, Upload-Offset, Upload-Length, Upload-Expires, Upload-Metadata';

const preflight = (ctx: Context): void => {
  ctx.set('Access-Control-Allow-Methods', 'GET, HEAD, POST, PUT, PATCH, DELETE');
  ctx.set('Access-Control-Allow-Headers', `${corsHeaders}, ${storageHeaders}, ${openAiHeaders}`);
  ctx.set('Access-Control-Max-Age', '86400');
  ctx.status = 204;
};

const cors =
  (isOpen: (path: string) => boolean): Middleware =>
  (ctx, next) => {
    if (ctx.get('origin') === '' || !isOpen(ctx.path)) return next();
    ctx.set('Access-Control-Allow-Origin', '*');
    ctx.set('Access-Control-Expose-Headers', exposed);
    if (ctx.method !== 'OPTIONS' || ctx.get('access-control-request-method') === '') return next();
    preflight(ctx);
    return Promise.resolve();
  };

const koaPath = ({ path, deep }: Endpoint): string =>
  (deep !== null ? path.replace(/\{path\}$/, '*path') : path).replaceAll(/\{(\w+)\}/g, ':$1');

/**
 * Sets the parameter `path` to what follows the parts before it, byte for byte: the router would drop a slash at its
 * end, and pass on a malformed escape.
 */
const setDeepPath = (endpoint: Endpoint, ctx: Context): void => {
  ctx.state['errorForm'] = endpoint.errors;
  const before = endpoint.path.split('/').length - 1;
  const params = ctx['params'] as Record<string, string>;
  const rest = ctx.path.split('/').slice(before).join('/');
  params['path'] = endpoint.deep === 'raw' ? rest : decodeEscapes(rest);
};

const routerOf = (endpoints: readonly Endpoint[], deps: Deps): Router => {
  const router = new Router({ sensitive: true });
  for (const endpoint of endpoints) {
    router[endpoint.method](koaPath(endpoint), (ctx: Context) => {
      if (endpoint.deep !== null) setDeepPath(endpoint, ctx);
      return handle(endpoint, ctx, deps);
    });
  }
  return router;
};

/** Below it paths have as many parts as the names of files do. */
const storagePath = /^(?:\/p\/[^/]+)?\/storage\/v1(?=\/|$)/;

/** The first part of a path and how many parts it has: two paths of which these differ are not the same route. */
const groupOf = (path: string): string => {
  if (storagePath.test(path)) return 'storage';
  const firstEnd = path.indexOf('/', 1);
  if (firstEnd === -1) return path;
  let slashes = 0;
  // One at the end makes no further part.
  for (let at = firstEnd; at !== -1 && at < path.length - 1; at = path.indexOf('/', at + 1)) slashes += 1;
  return slashes === 0 ? path.slice(0, firstEnd) : `${path.slice(0, firstEnd)} ${slashes}`;
};

type RouterFor = (path: string) => Router;

const firstPart = (path: string): string => path.split('/', 2)[1] ?? '';

/** Whether a path has any depth and is not a file's: files have a router of their own. */
const isApart = ({ deep, path }: Endpoint): boolean => deep !== null && !storagePath.test(path);

/** Routers of few routes: one tries all that it has on each request, some 0.3 µs for each. */
const routersOf = (endpoints: readonly Endpoint[], deps: Deps): RouterFor => {
  const nothing = new Router();
  const [deep, flat] = [endpoints.filter(isApart), endpoints.filter((endpoint) => !isApart(endpoint))];
  const deepOf = Map.groupBy(deep, ({ path }) => firstPart(path));
  const groups = Map.groupBy(flat, ({ path }) => groupOf(path));
  // A path of any depth comes last: what is named beside it goes before.
  const routers = new Map(
    [...groups].map(([part, group]) => [
      part,
      routerOf([...group, ...(deepOf.get(firstPart(group[0]?.path ?? '')) ?? [])], deps),
    ]),
  );
  const deepRouters = new Map([...deepOf].map(([part, group]) => [part, routerOf(group, deps)]));
  return (path) => routers.get(groupOf(path)) ?? deepRouters.get(firstPart(path)) ?? nothing;
};

const route = (routerFor: RouterFor): Middleware => {
  const middlewares = new Map<Router, Middleware>();
  return (ctx, next) => {
    const router = routerFor(ctx.path);
    const known = middlewares.get(router);
    const middleware = known ?? (router.routes() as unknown as Middleware);
    if (known === undefined) middlewares.set(router, middleware);
    return middleware(ctx, next);
  };
};

/** Below these, clients of OpenAI's read errors in their own form; below `/v1/rest` PostgREST's do. */
const openAiPath = /^(\/p\/[^/]+)?\/v1\/(?!rest(\/|$))/;
/** Below these, clients for sign-in read errors in their form. */
const authPath = /^\/p\/[^/]+\/auth\/v1\//;

/** Answers requests without a route: an unknown path, or a known one with another method. */
const unrouted =
  (routerFor: RouterFor): Middleware =>
  async (ctx, next) => {
    await next();
    if (ctx['_matchedRoute'] !== undefined || ctx.status !== 404 || ctx.body) return;
    if (openAiPath.test(ctx.path)) ctx.state['errorForm'] = 'openai' satisfies ErrorForm;
    if (authPath.test(ctx.path)) ctx.state['errorForm'] = 'auth' satisfies ErrorForm;
    if (storagePath.test(ctx.path)) ctx.state['errorForm'] = 'storage' satisfies ErrorForm;
    const allowed = routerFor(ctx.path)
      .match(ctx.path, ctx.method)
      .path.flatMap((layer) => layer.methods);
    if (allowed.length === 0)
      throw new ServiceError('not_found', 'There is nothing at this path.', { hint: 'See /docs.' });
    const allow = [...new Set(allowed), 'OPTIONS'].join(', ');
    if (ctx.method === 'OPTIONS') {
      ctx.status = 204;
      ctx.set('Allow', allow);
      return;
    }
    throw new ServiceError('method_not_allowed', `${ctx.method} is not possible here.`, { headers: { Allow: allow } });
  };

/** @throws {Error} when two endpoints share a route or one declares no access: the process must not start */
export const checkEndpoints = (endpoints: readonly Endpoint[]): void => {
  const seen = new Set<string>();
  for (const { method, path, access } of endpoints) {
    const route = `${method.toUpperCase()} ${path}`;
    if ((access as { kind?: unknown } | undefined)?.kind === undefined) throw new Error(`${route} declares no access`);
    if (seen.has(route)) throw new Error(`${route} is defined twice`);
    seen.add(route);
  }
};

export interface AppOptions {
  readonly endpoints: readonly Endpoint[];
  readonly deps: Deps;
  /** Pages and files that are not part of the API: the documentation. */
  readonly pages?: readonly Middleware[];
}

/** The whole HTTP application; listens nowhere. */
export const createApp = ({ endpoints, deps, pages = [] }: AppOptions): Koa => {
  checkEndpoints(endpoints);
  const app = new Koa({ proxy: deps.config.PLINTH_TRUST_PROXY === 'on', maxIpsCount: 1 });
  const routerFor = routersOf(endpoints, deps);
  const open = routersOf(
    endpoints.filter(({ anyOrigin }) => anyOrigin),
    deps,
  );
  const isOpen = (path: string): boolean => open(path).match(path, 'GET').path.length > 0;
  app.use(requestId).use(traceRequests(deps)).use(answerAll(deps)).use(checkTarget);
  app.use(projectHosts(deps.config.PUBLIC_DOMAIN)).use(cors(isOpen));
  for (const page of pages) app.use(page);
  app.use(unrouted(routerFor)).use(route(routerFor));
  app.on('error', (error: unknown) => deps.log.debug({ err: error }, 'a connection failed'));
  return app;
};
