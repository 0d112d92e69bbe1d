import type { Context, Next } from 'koa';
import type { Issuer } from '#domain/oauth/oauth.ts';
import type { Project } from '#domain/projects/store.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { ownAddress } from '#lib/own-address.ts';
import type { BaseCall } from './call.ts';
import { RawReply } from './endpoint.ts';
import { id } from './fields.ts';
import { restUrl } from './http/rest-url.ts';
import { hostedHeaders } from './pages/hosted/layout.ts';
import type { RawRequest } from './raw-endpoint.ts';
import { createHash } from 'node:crypto';

/** Shared by all endpoints below `/oauth/{project_id}`. */

export const oauthRoot = '/oauth/{project_id}';

const loopback = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/;

/**
 * Where the provider is: as the settings say. Without them a request from this machine decides; a Host header of a
 * stranger's choice never does.
 */
const baseUrlOf = ({ baseUrl, deps }: Pick<BaseCall, 'baseUrl' | 'deps'>): string =>
  deps.config.PLINTH_BASE_URL !== undefined || !loopback.test(baseUrl) ? ownAddress(deps.config) : baseUrl;

type IssuerCall = Pick<BaseCall, 'baseUrl' | 'deps'>;

const findProject = async ({ deps }: IssuerCall, given: string | undefined): Promise<Project> => {
  const parsed = id.safeParse(given);
  const project = parsed.success ? await deps.keys.findProject(parsed.data) : undefined;
  if (project === undefined) throw notFound('issuer');
  return project;
};

export type CalledIssuer = Issuer & { readonly project: Project };

/** The provider that a path names. @throws {ServiceError} `not_found` */
export const publishedIssuer = async (call: IssuerCall, projectId: string | undefined): Promise<CalledIssuer> => {
  const project = await findProject(call, projectId);
  const baseUrl = baseUrlOf(call);
  return { project, url: `${baseUrl}/oauth/${project.id}`, audience: restUrl(project.ref, { ...call, baseUrl }) };
};

/** As `publishedIssuer`, for what needs the project's database. @throws {ServiceError} `project_not_ready` */
export const issuerOf = async (call: IssuerCall, projectId: string | undefined): Promise<CalledIssuer> => {
  const issuer = await publishedIssuer(call, projectId);
  const { status } = issuer.project;
  if (status !== 'active') throw new ServiceError('project_not_ready', `The project is ${status}, not active.`);
  return issuer;
};

/** The request as a library sees it that reads the body itself: it was read already, within the endpoint's limits. */
const withBody = (req: Context['req'], body: Buffer): Context['req'] =>
  Object.create(req, {
    readable: { value: true },
    iterator: {
      value: async function* iterator() {
        yield await Promise.resolve(body);
      },
    },
  }) as Context['req'];

const done: Next = () => Promise.resolve();

const inlineScript = /<script>([^]*?)<\/script>/g;
const formAction = /<form method="post" action="([^"]+)"/;

/** Pages that the library writes send a form by a script of theirs: that one and no other may run, and post there. */
const policyOf = (page: string): string => {
  const scripts = [...page.matchAll(inlineScript)].map(
    ([, script = '']) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`,
  );
  const target = URL.parse(formAction.exec(page)?.[1]?.replaceAll('&amp;', '&') ?? '');
  const origin = target === null || target.origin === 'null' ? (target?.protocol ?? '') : target.origin;
  return `default-src 'none'; script-src ${scripts.join(' ') || "'none'"}; form-action 'self' ${origin}; frame-ancestors 'none'; base-uri 'none'`;
};

const replyOf = (ctx: Context): RawReply => {
  const { body, status, type } = ctx;
  if (type === 'text/html') {
    ctx.set(hostedHeaders);
    if (!ctx.response.get('content-security-policy')) ctx.set('Content-Security-Policy', policyOf(String(body)));
  }
  const text = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body ?? {});
  return new RawReply(text, ctx.response.get('content-type') || 'application/json; charset=utf-8', status);
};

/** A failure of the library that is no refusal of a request: it answers without naming the cause, so we log it. */
const faultOf = (ctx: Context): Error | undefined => (ctx.state as { oauthFault?: Error }).oauthFault;

/**
 * Answers a request by the project's oidc-provider.
 * @param body of a request that has one
 * @throws what the library could not do
 */
export const answerByProvider = async (
  { context: ctx }: RawRequest,
  call: BaseCall,
  issuer: Issuer,
  body: Buffer | null,
): Promise<RawReply> => {
  const provider = await call.deps.issuers.of(issuer);
  const [run] = provider.middleware;
  if (run === undefined) throw new Error('the provider answers nothing');
  const { req, url } = ctx;
  const route: unknown = ctx['_matchedRoute'];
  if (body !== null) {
    ctx.req = withBody(req, body);
    ctx.request.req = ctx.req;
  }
  ctx.url = url.slice(`/oauth/${issuer.project.id}`.length);
  // The library writes cookies by our context, too, which knows of no proxy in front of us that speaks TLS.
  if (issuer.url.startsWith('https:')) ctx.cookies.secure = true;
  try {
    await run(ctx, done);
  } finally {
    ctx.req = req;
    ctx.request.req = req;
    ctx.url = url;
    ctx['_matchedRoute'] = route;
  }
  const fault = faultOf(ctx);
  if (fault !== undefined) throw fault;
  return replyOf(ctx);
};
