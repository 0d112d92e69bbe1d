import { type Socket, connect as connectTo } from 'node:net';
import type { Egress, EgressAddress } from '#lib/egress.ts';
import { EgressFailed } from '#lib/egress/failures.ts';

/**
 * When TLS begins. `start`: before a word is said. `required`: by STARTTLS, or nothing is sent. `offered`: by STARTTLS
 * where the server has it, and without it only to addresses that are open for that.
 */
export type TlsRule = 'start' | 'required' | 'offered';

/** A mail server and how to sign in there. */
export interface SmtpServer {
  readonly host: string;
  readonly port: number;
  readonly tls: TlsRule;
  /** Empty: without signing in. */
  readonly username: string;
  readonly password: string;
}

/** How a server is reached. */
export interface SmtpRoute {
  /** The addresses that may be connected to. */
  readonly lookup: Egress['lookup'];
  /** Whether mail and password may go to this address without TLS, where the rule is `offered`. */
  readonly plainTo: (address: string) => boolean;
  /** Certificates (PEM) that are trusted instead of the usual ones. */
  readonly ca?: string;
}

/** The security that a port implies (contract, section 7). */
export const tlsRuleOf = (port: number): TlsRule => {
  if (port === 465) return 'start';
  return port === 587 || port === 2525 ? 'required' : 'offered';
};

const loopback = /^(127\.|::1$|::ffff:127\.)/;

/** On a developer's machine, mail catchers speak without TLS. */
export const plainRule = (local: boolean): SmtpRoute['plainTo'] =>
  local ? (address) => loopback.test(address) : () => false;

/** @throws whatever kept the connection from being made; a time-out has the code ETIMEDOUT */
const opened = (socket: Socket, timeoutMs: number): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      socket.destroy(Object.assign(new Error('no connection in time'), { code: 'ETIMEDOUT' }));
    }, timeoutMs);
    socket.once('error', (error) => {
      clearTimeout(timer);
      reject(error);
    });
    socket.once('connect', () => {
      clearTimeout(timer);
      // The next user of the socket adds its own listener; until then an error must not end the process.
      socket.removeAllListeners('error').on('error', () => undefined);
      resolve(socket);
    });
  });

/**
 * A connection to one of these addresses, tried in turn (RFC 8305); the name is not looked up again.
 * @throws {EgressFailed} naming the host, never an address
 */
export const dial = async (
  addresses: readonly EgressAddress[],
  { host, port }: Pick<SmtpServer, 'host' | 'port'>,
  timeoutMs: number,
): Promise<Socket> => {
  const [first] = addresses;
  if (first === undefined) throw new EgressFailed('name_not_found', host);
  const target =
    addresses.length === 1
      ? { host: first.address, port }
      : {
          host: 'mail.invalid',
          port,
          autoSelectFamily: true,
          autoSelectFamilyAttemptTimeout: Math.max(250, Math.floor(timeoutMs / addresses.length)),
          lookup: (_host: string, _options: unknown, done: (error: null, all: EgressAddress[]) => void): void =>
            done(null, [...addresses]),
        };
  try {
    return await opened(connectTo(target), timeoutMs);
  } catch (error) {
    const isLate = error instanceof Error && Reflect.get(error, 'code') === 'ETIMEDOUT';
    throw new EgressFailed(isLate ? 'timeout' : 'connection_failed', host, error);
  }
};
