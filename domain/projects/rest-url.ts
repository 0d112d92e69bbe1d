import type { Config } from '#lib/config.ts';

/** The address of a project's own API (interface, `{rest_url}`): a host name of its own, or a path below ours. */
export const projectUrl = (
  ref: string,
  { PUBLIC_DOMAIN: domain }: Pick<Config, 'PUBLIC_DOMAIN'>,
  baseUrl: string,
): string => {
  if (domain === undefined) return `${baseUrl}/p/${ref}`;
  const scheme = baseUrl.startsWith('https:') ? 'https' : 'http';
  return `${scheme}://${ref}.${domain}`;
};
