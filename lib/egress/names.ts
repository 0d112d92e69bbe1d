import { Resolver } from 'node:dns/promises';
import { existsSync, readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { EgressFailed } from './failures.ts';

/** Every address of a host name. @throws {EgressFailed} when there is none, or nobody to ask */
export type Resolve = (host: string) => Promise<readonly string[]>;

export interface ResolveOptions {
  /** `address:port` of name servers; those of the machine unless given. */
  readonly servers?: readonly string[];
  readonly hostsFile?: string;
  readonly timeoutMs?: number;
}

const lookupTimeoutMs = 5000;
const queryTimeoutMs = 1500;
const tries = 3;

const withoutDot = (host: string): string => host.toLowerCase().replace(/\.$/, '');

/** Names that the machine's own hosts file defines: containers learn their host's address there. */
const readHosts = (file: string): ReadonlyMap<string, string[]> => {
  const hosts = new Map<string, string[]>();
  if (!existsSync(file)) return hosts;
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const [address = '', ...names] = (line.split('#')[0] ?? '').trim().split(/\s+/);
    if (isIP(address) === 0) continue;
    for (const name of names.map(withoutDot)) hosts.set(name, [...(hosts.get(name) ?? []), address]);
  }
  return hosts;
};

const absent = new Set(['ENOTFOUND', 'ENODATA', 'EBADNAME']);

const codeOf = (failure: PromiseSettledResult<unknown>): string =>
  failure.status === 'rejected' ? String(Reflect.get(Object(failure.reason), 'code')) : '';

const isAbsent = (failures: readonly PromiseSettledResult<unknown>[]): boolean =>
  failures.every((failure) => absent.has(codeOf(failure)));

/** Both families are asked for; what one of them does not answer is not connected to. */
const queryDns = async (host: string, { servers, timeoutMs = lookupTimeoutMs }: ResolveOptions): Promise<string[]> => {
  const resolver = new Resolver({ timeout: Math.min(queryTimeoutMs, timeoutMs), tries });
  if (servers) resolver.setServers(servers);
  const deadline = setTimeout(() => resolver.cancel(), timeoutMs);
  try {
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (found.length > 0) return found;
    throw new EgressFailed(isAbsent(answers) ? 'name_not_found' : 'name_lookup_failed', host);
  } finally {
    clearTimeout(deadline);
  }
};

/**
 * Resolves names over the network, without the thread pool that files and hashing share: getaddrinfo holds one of its
 * four threads for as long as a name server pleases, and strangers choose the name servers. Search domains are not
 * tried; /etc/hosts is read once.
 */
export const createResolve = (options: ResolveOptions = {}): Resolve => {
  const hosts = readHosts(options.hostsFile ?? '/etc/hosts');
  return (host) => {
    const own = hosts.get(withoutDot(host));
    return own === undefined ? queryDns(host, options) : Promise.resolve(own);
  };
};

const loopback = ['127.0.0.1', '::1'];

/** `localhost` and all names below it are this machine, whichever server is asked (RFC 6761). */
export const localhostAddresses = (host: string): readonly string[] | null =>
  /(^|\.)localhost$/.test(withoutDot(host)) ? loopback : null;
