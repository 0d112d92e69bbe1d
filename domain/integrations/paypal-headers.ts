/** The headers by which a call proves to be PayPal's, under the names of its API. */
export interface SignedParts {
  readonly auth_algo: string;
  readonly cert_url: string;
  readonly transmission_id: string;
  readonly transmission_sig: string;
  readonly transmission_time: string;
}

interface HeaderRule {
  readonly name: string;
  /** PayPal's own limit (developer.paypal.com, "Verify webhook signature"). */
  readonly longest: number;
}

const headerRules: Readonly<Record<keyof SignedParts, HeaderRule>> = {
  auth_algo: { name: 'paypal-auth-algo', longest: 100 },
  cert_url: { name: 'paypal-cert-url', longest: 500 },
  transmission_id: { name: 'paypal-transmission-id', longest: 50 },
  transmission_sig: { name: 'paypal-transmission-sig', longest: 500 },
  transmission_time: { name: 'paypal-transmission-time', longest: 100 },
};

const maxPastDays = 29;
const dayMs = 86_400_000;

/** Beyond that time a repeat would no longer be known as one. */
const isRecent = (time: string, now: number): boolean => {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/.test(time)) return false;
  const age = now - Date.parse(time);
  return age < maxPastDays * dayMs && age > -dayMs;
};

/** Where PayPal keeps its certificates; one that stands in for it, where a config says it is. */
const isCertUrl = (text: string, base: string): boolean => {
  const url = URL.parse(text);
  if (url === null || url.username !== '' || url.password !== '') return false;
  const isPaypals = url.protocol === 'https:' && url.port === '' && /(^|\.)paypal\.com$/.test(url.hostname);
  return isPaypals || url.origin === URL.parse(base)?.origin;
};

/**
 * Reads the headers of a call that claims to be PayPal's. Everybody can write them so that they pass; what does not pass
 * is not worth a question to PayPal.
 * @param base where PayPal is
 * @param now in ms
 * @returns null when PayPal cannot have written them
 */
export const signedPartsOf = (header: (name: string) => string, base: string, now: number): SignedParts | null => {
  const parts = Object.entries(headerRules).map(([field, rule]) => [field, header(rule.name), rule.longest] as const);
  if (!parts.every(([, value, longest]) => /^[\x20-\x7e]+$/.test(value) && value.length <= longest)) return null;
  const read = Object.fromEntries(parts) as Record<keyof SignedParts, string>;
  const isLikely =
    read.auth_algo === 'SHA256withRSA' && isRecent(read.transmission_time, now) && isCertUrl(read.cert_url, base);
  return isLikely ? read : null;
};
