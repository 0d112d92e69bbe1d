import { isIP } from 'node:net';
import type { Context } from 'koa';

/**
 * The address of the caller. Behind a trusted proxy (PLINTH_TRUST_PROXY) it is the last one of X-Forwarded-For, which
 * that proxy wrote itself: what stands before it came from the caller, who can write anything.
 */
export const addressOf = (ctx: Context): string => (isIP(ctx.ip) === 0 ? (ctx.socket.remoteAddress ?? '') : ctx.ip);

const loopback = /^(::1|127\.|::ffff:127\.)/;

/** Whether a program on this very machine asks, not a proxy here that passes on what comes from elsewhere. */
export const isLocalCaller = (ctx: Context): boolean =>
  loopback.test(ctx.socket.remoteAddress ?? '') && ctx.get('x-forwarded-for') === '' && ctx.get('forwarded') === '';

const groupsOf = (part: string): string[] => (part === '' ? [] : part.split(':'));

const firstGroups = (address: string): string => {
  const [head = '', tail] = address.split('::');
  const known = groupsOf(head);
  const end = groupsOf(tail ?? '');
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - known.length - end.length);
  return [...known, ...Array.from({ length: zeros }, () => '0'), ...end]
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':');
};

/**
 * The addresses that one caller controls: an IPv4 address, or the /64 network of an IPv6 address, which one line has
 * whole.
 */
export const networkOf = (address: string): string => {
  const v4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (v4 !== undefined) return v4;
  return isIP(address) === 6 ? `${firstGroups(address)}::/64` : address;
};
