import { connect } from 'node:net';
import type { ClientBase } from 'pg';

const cancelRequestCode = 80_877_102;
const patienceMs = 2000;

/** Fields of pg's client about its session that its types do not declare. */
interface Session {
  readonly host: string;
  readonly port: number;
  readonly processID: number;
  readonly secretKey: number;
}

const requestOf = ({ processID, secretKey }: Session): Buffer => {
  const message = Buffer.alloc(16);
  message.writeInt32BE(16, 0);
  message.writeInt32BE(cancelRequestCode, 4);
  message.writeInt32BE(processID, 8);
  message.writeInt32BE(secretKey, 12);
  return message;
};

/**
 * Asks the server to cancel what a connection runs, by the protocol's own request: it needs no second login, which
 * would have to wait for a free connection of the very project that uses them up. Never rejects; a request that gets
 * lost leaves the statement to its time-out.
 */
export const cancelQuery = (client: ClientBase): Promise<void> =>
  new Promise((resolve) => {
    const session = client as unknown as Session;
    const { host, port } = session;
    const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
    socket.setTimeout(patienceMs, () => socket.destroy());
    // The server closes the connection when it has passed the request on.
    socket.on('error', () => undefined);
    socket.once('close', () => resolve());
    socket.once('connect', () => socket.write(requestOf(session)));
    socket.resume();
  });
