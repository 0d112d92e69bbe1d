import { lookup } from 'node:dns/promises';
import { type Transport, openTransport } from '#domain/email/transport.ts';
import { plainRule } from '#domain/email/smtp.ts';
import type { Config } from '#lib/config.ts';
import { ownAddress } from '#lib/own-address.ts';

/** The server for the platform's own mail, and who it is from. */
export interface PlatformMailServer {
  readonly transport: Transport;
  readonly from: { readonly name: string; readonly address: string };
  /** The domain of the sender's address. */
  readonly domain: string;
  /** Ends every connection at once; answers that are still missing are not waited for. */
  readonly end: () => void;
}

const senderOf = (config: Config): PlatformMailServer['from'] => {
  const { hostname } = new URL(ownAddress(config));
  const given = config.PLINTH_MAIL_FROM ?? `plinth@${hostname}`;
  const [, name = '', address = given] = /^\s*(.*?)\s*<([^<>\s]+)>\s*$/.exec(given) ?? [];
  return { name: name.replace(/^"(.*)"$/, '$1') || 'plinth', address };
};

/** Opens nothing before the first mail. Null: PLINTH_SMTP_URL is not set. */
export const openPlatformMailServer = (config: Config, ca?: string): PlatformMailServer | null => {
  if (config.PLINTH_SMTP_URL === undefined) return null;
  const url = new URL(config.PLINTH_SMTP_URL);
  const isTls = url.protocol === 'smtps:';
  const port = url.port === '' ? (isTls ? 465 : 587) : Number(url.port);
  const from = senderOf(config);
  const ending = new AbortController();
  return {
    from,
    end: () => ending.abort(),
    domain: from.address.slice(from.address.lastIndexOf('@') + 1),
    transport: openTransport({
      host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
      port,
      tls: isTls ? 'start' : port === 587 ? 'required' : 'offered',
      username: decodeURIComponent(url.username),
      password: decodeURIComponent(url.password),
      // The operators' own choice: it may well be a private address.
      lookup: async (host) =>
        (await lookup(host, { all: true })).map(({ address, family }) => ({ address, family: family === 6 ? 6 : 4 })),
      plainTo: plainRule(true),
      ...(ca !== undefined && { ca }),
      timeouts: { answerMs: config.PLINTH_SMTP_ANSWER_MS },
      ended: ending.signal,
    }),
  };
};
