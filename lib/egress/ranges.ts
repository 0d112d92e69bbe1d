import { BlockList, isIP, isIPv6 } from 'node:net';

/**
 * Which addresses are public. From the IANA special-purpose address registries (RFC 6890): whatever is not "globally
 * reachable" there, and what is deprecated.
 */
const closedV4 = [
  '0.0.0.0/8', // this network; on Linux 0.0.0.0 is this machine
  '10.0.0.0/8',
  '100.64.0.0/10', // shared by carriers (RFC 6598); metadata of some clouds
  '127.0.0.0/8',
  '168.63.129.16/32', // public in form; inside Azure it is the machine's own host
  '169.254.0.0/16', // link-local; metadata of most clouds
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24', // documentation
  '192.88.99.0/24', // relays of 6to4
  '192.168.0.0/16',
  '198.18.0.0/15', // benchmarks
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, broadcast
];

/** All of IPv6 that is given out lies in here: loopback, link-local, ULA, site-local, multicast and ::/96 do not. */
const openV6 = ['2000::/3'];

const closedV6 = [
  '2001::/23', // protocol assignments: Teredo, benchmarks, ORCHID
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4
  '3fff::/20', // documentation
];

/** Prefixes of IPv6 that carry an IPv4 address in their last 32 bits and lead to it. */
const carriers = ['::ffff:0:0/96', '64:ff9b::/96'];

/** Apart by family: one BlockList of both counts 10.0.0.1 as in ::/0, by way of its mapped form. */
export interface Ranges {
  readonly ipv4: BlockList;
  readonly ipv6: BlockList;
}

/** @throws {RangeError} naming the part that is not a range */
const addRange = (ranges: Ranges, text: string): void => {
  const [address = '', length, ...rest] = text.split('/');
  const version = isIP(address);
  const longest = version === 4 ? 32 : 128;
  const bits = length === undefined ? longest : /^\d{1,3}$/.test(length) ? Number(length) : Number.NaN;
  if (version === 0 || address.includes('%') || rest.length > 0 || !(bits <= longest)) {
    throw new RangeError(`"${text}" is not an address range such as 10.0.0.0/8 or fd00::/8`);
  }
  const family = version === 4 ? 'ipv4' : 'ipv6';
  ranges[family].addSubnet(address, bits, family);
};

const rangesOf = (texts: readonly string[]): Ranges => {
  const ranges = { ipv4: new BlockList(), ipv6: new BlockList() };
  for (const text of texts) addRange(ranges, text);
  return ranges;
};

const v4Closed = rangesOf(closedV4);
const v6Open = rangesOf(openV6);
const v6Closed = rangesOf(closedV6);
const carrying = rangesOf(carriers);

const isIn = (ranges: Ranges, address: string): boolean => {
  const family = isIPv6(address) ? 'ipv6' : 'ipv4';
  return ranges[family].check(address, family);
};

/**
 * Ranges in CIDR notation, or single addresses, separated by commas; empty means none.
 * @throws {RangeError} naming the part that is not a range
 */
export const parseRanges = (text: string): Ranges => {
  const parts = text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  const ranges = rangesOf(parts);
  const carried = parts.find((part) => isIn(carrying, part.split('/')[0] ?? ''));
  if (carried === undefined) return ranges;
  throw new RangeError(`"${carried}" carries IPv4 addresses: name the range of those`);
};

const lastGroups = (address: string): [number, number] => {
  // The shortest form (RFC 5952) ends in the two groups; one that is left out is zero.
  const groups = new URL(`http://[${address}]`).hostname.slice(1, -1).split(':');
  const [high, low] = groups.slice(-2).map((group) => Number.parseInt(group || '0', 16));
  return [high ?? 0, low ?? 0];
};

/** The address that packets go to in the end: without a zone, and the IPv4 one where an IPv6 one carries it. */
const innermost = (address: string): string => {
  const bare = address.split('%')[0] ?? '';
  if (!isIPv6(bare) || !isIn(carrying, bare)) return bare;
  const [high, low] = lastGroups(bare);
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
};

const isPublic = (address: string): boolean =>
  isIPv6(address) ? isIn(v6Open, address) && !isIn(v6Closed, address) : !isIn(v4Closed, address);

/** Whether a connection to that address may be made: it is public, or in `extra`. Anything but an address is false. */
export const isOpen = (address: string, extra: Ranges): boolean => {
  if (isIP(address) === 0) return false;
  const inner = innermost(address);
  return isPublic(inner) || isIn(extra, inner);
};
