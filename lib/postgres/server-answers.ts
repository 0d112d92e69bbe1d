import { once } from 'node:events';
import { connect } from 'node:net';

/** Where a PostgreSQL server is; a host that begins with `/` is the folder of its socket. */
export interface ServerAddress {
  readonly host: string;
  readonly port: number;
}

/** The question whether it speaks TLS (PostgreSQL, "SSLRequest"): any server answers it, with one letter and without a login. */
const question = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

/** Whether a server answers at all, within some ms. */
export const serverAnswers = async ({ host, port }: ServerAddress, withinMs: number): Promise<boolean> => {
  const socket = connect(host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port });
  try {
    socket.write(question);
    await once(socket, 'data', { signal: AbortSignal.timeout(withinMs) });
    return true;
  } catch {
    return false;
  } finally {
    socket.on('error', () => undefined);
    socket.destroy();
  }
};
