import type { Config } from './config.ts';

/**
 * Where the platform is reached, without a slash at the end, for links that no request leads to: never taken from a
 * Host header, which a stranger can choose.
 */
export const ownAddress = (config: Pick<Config, 'PLINTH_BASE_URL' | 'HOST' | 'PORT'>): string =>
  config.PLINTH_BASE_URL?.replace(/\/+$/, '') ??
  `http://${config.HOST === '127.0.0.1' ? 'localhost' : config.HOST}:${config.PORT}`;
