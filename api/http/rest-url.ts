import type { Middleware } from 'koa';
import type { BaseCall } from '#api/call.ts';

/** The address of a project's own API (interface, `{rest_url}`): a host name of its own, or a path below ours. */
export const restUrl = (
  ref: string,
  { deps, baseUrl }: Pick<BaseCall, 'baseUrl'> & { readonly deps: Pick<BaseCall['deps'], 'config'> },
): string => {
  const domain = deps.config.PUBLIC_DOMAIN;
  if (domain === undefined) return `${baseUrl}/p/${ref}`;
  const scheme = baseUrl.startsWith('https:') ? 'https' : 'http';
  return `${scheme}://${ref}.${domain}`;
};

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
