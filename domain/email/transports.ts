import { LRUCache } from 'lru-cache';
import { findMailProvider, resendTransport } from './resend.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Egress } from '#lib/egress.ts';
import type { Sealer } from '#lib/secrets.ts';
import { domainOf } from './address.ts';
import { type EmailSettingsRow, dkimOf, serverOf } from './settings.ts';
import { type SmtpTimeouts, plainRule } from './smtp.ts';
import { type Dkim, type Transport, openTransport } from './transport.ts';

/** The sender of a project's mail, and the name that it uses. */
export interface Sender {
  readonly transport: Pick<Transport, 'send'>;
  readonly from: { readonly name: string; readonly address: string };
  readonly dkim: Dkim | null;
  /** The domain of message ids. */
  readonly domain: string;
}

export interface Transports {
  /** Null: neither a mail service nor a server is configured. */
  readonly senderOf: (project: {
    readonly id: string;
    readonly sealer: Sealer;
    readonly settings: EmailSettingsRow | null;
  }) => Promise<Sender | null>;
  /** Ends every connection at once; answers that are still missing are not waited for. */
  readonly close: () => void;
}

export interface TransportsDeps {
  readonly db: Queryable;
  readonly egress: Pick<Egress, 'fetch' | 'lookup'>;
  /** Without TLS to this very machine. */
  readonly local: boolean;
  /** Certificates (PEM) that are trusted instead of the usual ones. */
  readonly ca?: string;
  /** Time-outs that differ from the default ones. */
  readonly timeouts?: Partial<SmtpTimeouts>;
}

/** Their connections end by themselves when nothing is sent. */
const maxProjects = 500;

interface Open {
  readonly version: number;
  readonly sender: Sender;
  readonly close: () => void;
}

/**
 * Connections to the servers of projects, kept for the next mail: one pool for each project and version of its
 * settings.
 */
export const createTransports = ({ db, egress, local, ca, timeouts }: TransportsDeps): Transports => {
  const open = new LRUCache<string, Open>({ max: maxProjects, dispose: ({ close }) => close() });
  const ending = new AbortController();
  const route = { lookup: egress.lookup, plainTo: plainRule(local), ...(ca !== undefined && { ca }) };

  const bySmtp = (settings: EmailSettingsRow, sealer: Sealer): Sender => {
    const present = open.get(settings.id);
    if (present?.version === settings.version) return present.sender;
    const transport = openTransport({ ...serverOf(settings, sealer), ...route, timeouts, ended: ending.signal });
    const sender = {
      transport,
      from: { name: settings.from_name, address: settings.from_email },
      dkim: dkimOf(settings, sealer),
      domain: domainOf(settings.from_email),
    };
    open.set(settings.id, { version: settings.version, sender, close: transport.close });
    return sender;
  };

  return {
    senderOf: async ({ id, sealer, settings }) => {
      const service = await findMailProvider(db, sealer, { id });
      if (service !== null) {
        // Its address may stand behind a name.
        const address = /<([^<>]+)>\s*$/.exec(service.from_email)?.[1] ?? service.from_email;
        const from = { name: '', address };
        return { transport: resendTransport(egress, service), from, dkim: null, domain: domainOf(address) };
      }
      return settings === null ? null : bySmtp(settings, sealer);
    },
    close: () => {
      ending.abort();
      open.clear();
    },
  };
};
