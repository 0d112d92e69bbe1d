import { isIP, isIPv6 } from 'node:net';
import { callbackify } from 'node:util';
import { LRUCache } from 'lru-cache';
import { Agent, type Dispatcher, buildConnector } from 'undici';
import { type Exchange, type Exchanged, exchange } from './egress/exchange.ts';
import { EgressFailed, EgressRefused, explainFailure, hostRefused } from './egress/failures.ts';
import { type Resolve, createResolve, localhostAddresses } from './egress/names.ts';
import { type Ranges, isOpen, parseRanges } from './egress/ranges.ts';

/** For whom a connection is made: what operators and the platform's own features ask for, or the code of a function. */
type EgressUser = 'platform' | 'function';

export interface EgressRequest extends Exchange {
  readonly for: EgressUser;
}

export type EgressResponse = Exchanged;

export interface EgressAddress {
  readonly address: string;
  readonly family: 4 | 6;
}

/** The one way out: public addresses only, and what `PLINTH_EGRESS_ALLOW` opens. */
export interface Egress {
  /**
   * One request, redirects not followed.
   * @throws {EgressRefused} when the address is not open
   * @throws {EgressFailed} when there is no answer; what `signal` was aborted with when it was
   */
  readonly fetch: (url: string, request: EgressRequest) => Promise<EgressResponse>;
  /**
   * Checks a URL without any lookup, so that it can be refused when it is saved.
   * @throws {EgressRefused}
   */
  readonly check: (url: string, user?: EgressUser) => Readonly<URL>;
  /**
   * The addresses of a host, all of them open. For connections that are not HTTP: connect to one of these, not to the
   * name.
   * @throws {EgressRefused | EgressFailed}
   */
  readonly lookup: (host: string, user?: EgressUser) => Promise<EgressAddress[]>;
  /** For undici's own functions: checks every address that it connects to. Its errors go through `explainFailure`. */
  readonly dispatcher: (user: EgressUser) => Dispatcher;
  /** Returns the notice that a process logs when it starts; null when there is none. */
  readonly notice: string | null;
  /** Ends running requests: those that should finish have finished before. */
  readonly close: () => Promise<void>;
}

export interface EgressOptions {
  /** `PLINTH_EGRESS_ALLOW`; undefined when it is not set, which is not the same as empty. */
  readonly allow: string | undefined;
  /** `PLINTH_LOCAL`: unless a list is given, loopback is open to the platform. */
  readonly local: boolean;
  readonly resolve?: Resolve;
}

const connectTimeoutMs = 5000;
// A server may ask to be kept longer: not at our cost.
const maxKeepAliveMs = 10_000;
// The connections to one origin; more requests wait for one of these. A worker has fewer deliveries in flight by
// default.
const maxConnections = 1024;
const loopback = '127.0.0.0/8,::1';
// The longest name that DNS allows; longer ones are cut in messages.
const maxHostLength = 255;

const unbracketed = (host: string): string => host.replace(/^\[(.*)\]$/, '$1');

/** Returns the host of a URL as it was written, for messages. */
const hostAsWritten = (url: string): string => {
  const authority = /^\s*[a-z]+:[/\\]*([^/?#\\]*)/i.exec(url)?.[1] ?? '';
  const host = authority.slice(authority.lastIndexOf('@') + 1).replace(/:\d*$/, '');
  return host.slice(0, maxHostLength);
};

/** A host in the form in which URLs have it, so that 0x7f.1 or full-width digits are seen for what they are. */
const canonicalHost = (host: string): string => {
  const bare = unbracketed(host);
  if (isIP(bare) !== 0) return bare;
  const url = /[/\\@?#:\s]/.test(host) ? null : URL.parse(`http://${host}/`);
  if (url === null || url.hostname === '') throw hostRefused(host.slice(0, maxHostLength));
  return url.hostname;
};

type ResolveHost = (host: string) => Promise<EgressAddress[]>;

/**
 * Every address of a name has to be open. Taking only those that are would let a name's owner find out which private
 * ones are, and would make the outcome hang on the order of answers.
 */
const resolveHostWith =
  (extra: Ranges, resolve: Resolve): ResolveHost =>
  async (host) => {
    const addresses = isIP(host) === 0 ? (localhostAddresses(host) ?? (await resolve(host))) : [host];
    if (addresses.length === 0) throw new EgressFailed('name_not_found', host);
    if (!addresses.every((address) => isOpen(address, extra))) throw hostRefused(host);
    return addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }));
  };

/** Checks where a connection goes when it is made: a literal address here, a name in the only lookup that there is. */
const agentWith = (extra: Ranges, resolveHost: ResolveHost): Agent => {
  const resolveHostOnce = callbackify(resolveHost);
  const dial = buildConnector({
    timeout: connectTimeoutMs,
    allowH2: false,
    // All addresses are resolved, and tried one after the other (RFC 8305).
    autoSelectFamily: true,
    lookup: (host, _options, done) => resolveHostOnce(host, done),
  });
  return new Agent({
    allowH2: false,
    keepAliveMaxTimeout: maxKeepAliveMs,
    connections: maxConnections,
    connect: (options, done) => {
      const host = unbracketed(options.hostname);
      if (isIP(host) !== 0 && !isOpen(host, extra)) done(hostRefused(host), null);
      else dial(options, done);
    },
  });
};

type CheckUrl = (text: string) => Readonly<URL>;

const checkUrl = (text: string, extra: Ranges): URL => {
  const url = URL.parse(text);
  if (url === null) throw new EgressRefused('The address is not a URL.');
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new EgressRefused('Only addresses that begin with http:// or https:// may be reached.');
  }
  if (url.username !== '' || url.password !== '') {
    throw new EgressRefused('The address must not hold a user name or a password.');
  }
  const host = unbracketed(url.hostname);
  const known = isIP(host) === 0 ? localhostAddresses(host) : [host];
  if (known && !known.every((address) => isOpen(address, extra))) throw hostRefused(hostAsWritten(text));
  return url;
};

const maxKnownUrls = 1000;
// More is no address that is asked again and again.
const maxKnownUrlLength = 500;

/** Most requests go to the same few addresses, and checking one costs as much as parsing its request. */
const createCheckUrl = (extra: Ranges): CheckUrl => {
  const known = new LRUCache<string, Readonly<URL>>({ max: maxKnownUrls });
  return (text) => {
    const present = known.get(text);
    if (present !== undefined) return present;
    const url = checkUrl(text, extra);
    if (text.length <= maxKnownUrlLength) known.set(text, url);
    return url;
  };
};

/** The notice that `npm start` prints once for all of its processes, unless `PLINTH_EGRESS_ALLOW` is set. */
export const loopbackNotice =
  'requests of the platform may reach this machine itself (loopback), those of functions may not; PLINTH_EGRESS_ALLOW decides otherwise';

const noticeOf = ({ allow }: EgressOptions): string | null => {
  if (allow === undefined) return null;
  return allow.trim() === '' ? null : `requests may also reach ${allow} (PLINTH_EGRESS_ALLOW)`;
};

/**
 * The way out for a process, with connections that are kept for the next request.
 * @throws {RangeError} when `allow` holds something that is not a range
 */
export const createEgress = (options: EgressOptions): Egress => {
  const { allow, local, resolve = createResolve() } = options;
  const extra: Record<EgressUser, Ranges> = {
    platform: parseRanges(allow ?? (local ? loopback : '')),
    function: parseRanges(allow ?? ''),
  };
  const checks = { platform: createCheckUrl(extra.platform), function: createCheckUrl(extra.function) };
  const resolveHost = {
    platform: resolveHostWith(extra.platform, resolve),
    function: resolveHostWith(extra.function, resolve),
  };
  // Apart, so that a function never gets a kept connection that only the platform may make.
  const agents = {
    platform: agentWith(extra.platform, resolveHost.platform),
    function: agentWith(extra.function, resolveHost.function),
  };
  return {
    check: (url, user = 'platform') => checks[user](url),
    lookup: async (host, user = 'platform') => {
      try {
        return await resolveHost[user](canonicalHost(host));
      } catch (error) {
        throw explainFailure(error, host.slice(0, maxHostLength));
      }
    },
    dispatcher: (user) => agents[user],
    fetch: async (text, request) => {
      const url = checks[request.for](text);
      try {
        return await exchange(agents[request.for], url, request);
      } catch (error) {
        request.signal?.throwIfAborted();
        throw explainFailure(error, hostAsWritten(text));
      }
    },
    notice: noticeOf(options),
    close: async () => {
      await Promise.all([agents.platform.destroy(), agents.function.destroy()]);
    },
  };
};
