import type * as library from 'oidc-provider';

/*
 * oidc-provider without its entry, which warns on standard error of each build of Node.js that does not name its LTS line:
 * what processes print there is read by operators. Types are published with the entry alone.
 */
const load = async (name: string): Promise<unknown> => import(`oidc-provider/lib/${name}.js`);

export const { Provider } = (await load('provider')) as typeof library;
export const { InvalidGrant, InvalidTarget, SessionNotFound } = (await load('helpers/errors')) as typeof library.errors;
