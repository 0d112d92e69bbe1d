import type { BaseCall } from './call.ts';

/** The address of a project's own API (interface, `{rest_url}`): a host name of its own, or a path below ours. */
export const restUrl = (ref: string, { deps, baseUrl }: Pick<BaseCall, 'deps' | 'baseUrl'>): string => {
  const domain = deps.config.PUBLIC_DOMAIN;
  if (domain === undefined) return `${baseUrl}/p/${ref}`;
  const scheme = baseUrl.startsWith('https:') ? 'https' : 'http';
  return `${scheme}://${ref}.${domain}`;
};
