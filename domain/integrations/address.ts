import type { Egress } from '#lib/egress.ts';
import { EgressFailed, EgressRefused } from '#lib/egress/failures.ts';
import { isOpen, parseRanges } from '#lib/egress/ranges.ts';
import { type Config, invalidConfig } from './config.ts';
import { isMasked } from './mask.ts';
import { type ProviderName, providerFacts } from './providers.ts';

const nothingMore = parseRanges('');

const isPublic = (address: string): boolean => isOpen(address, nothingMore);

// Each takes what it is sent in its own form only.
const foreignHosts: Readonly<Partial<Record<ProviderName, RegExp>>> = {
  slack: /(^|\.)discord(app)?\.com$/,
  discord: /(^|\.)slack(-gov)?\.com$/,
};

type Ways = Pick<Egress, 'check' | 'lookup'>;

/**
 * Returns the problem of an address that receives secrets, or that is one: they are sent unencrypted only to hosts that
 * the operator has allowed. Null: none.
 * @throws {EgressRefused | EgressFailed}
 */
export const faultOfAddress = async (egress: Ways, address: string): Promise<string | null> => {
  const url = egress.check(address);
  if (url.protocol === 'https:') return null;
  const found = await egress.lookup(url.hostname);
  return found.some(({ address: at }) => isPublic(at)) ? 'must begin with https://' : null;
};

/** Null: nothing is wrong. */
const faultOf = async (egress: Ways, provider: ProviderName, address: string): Promise<string | null> => {
  const url = egress.check(address);
  if (foreignHosts[provider]?.test(url.hostname)) return `is not an address for ${provider}`;
  return faultOfAddress(egress, address);
};

const isAddress = (value: unknown): value is string => typeof value === 'string' && URL.canParse(value);

/** A value that was sent back as it was shown is kept, and was checked before; only secrets are masked. */
const isKept = (provider: ProviderName, field: string, value: unknown): boolean =>
  providerFacts[provider].secrets.includes(field) && isMasked(value);

/**
 * Checks the addresses in a config before it is kept: https, or http to an address that is not public and that the
 * platform may reach all the same (`PLINTH_EGRESS_ALLOW`; loopback in local development).
 * @throws {ServiceError} `validation_failed`
 */
export const checkAddresses = async (egress: Ways, provider: ProviderName, config: Config): Promise<void> => {
  for (const field of ['webhook_url', 'base_url']) {
    const address = config[field];
    if (!isAddress(address) || isKept(provider, field, address)) continue;
    const fault = await faultOf(egress, provider, address).catch((error: unknown) => {
      if (error instanceof EgressRefused || error instanceof EgressFailed) return error.message;
      throw error;
    });
    if (fault !== null) throw invalidConfig([{ path: field, message: fault }]);
  }
};
