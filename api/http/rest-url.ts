import type { Middleware } from 'koa';
import { projectUrl } from '#domain/projects/rest-url.ts';
import type { BaseCall } from '#api/call.ts';

/** The address of a project's own API, as the request's client sees it. */
export const restUrl = (
  ref: string,
  { deps, baseUrl }: Pick<BaseCall, 'baseUrl'> & { readonly deps: Pick<BaseCall['deps'], 'config'> },
): string => projectUrl(ref, deps.config, baseUrl);

/** Both forms of the address lead to the same endpoints: `{ref}.{PUBLIC_DOMAIN}/x` is `/p/{ref}/x`. */
export const projectHosts =
  (domain: string | undefined): Middleware =>
  (ctx, next) => {
    const [ref = '', ...rest] = ctx.host.split('.');
    if (domain !== undefined && rest.join('.') === domain && /^[a-z][a-z0-9]{19}$/.test(ref)) {
      ctx.url = `/p/${ref}${ctx.url}`;
      ctx.state['isOwnHost'] = true;
    }
    return next();
  };
