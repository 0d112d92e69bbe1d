import { once } from 'node:events';
import { type AddressInfo, type Server, type Socket, connect, createServer } from 'node:net';

/** Stands between the platform and a server, and can misbehave as networks do. */
export interface TcpProxy {
  readonly port: number;
  /** No connection is accepted, and those that there were are gone. */
  readonly refuse: () => Promise<void>;
  /** Connections stay and are accepted, but nothing moves until `restore`. */
  readonly hang: () => void;
  /** Ends all connections; new ones work. */
  readonly cut: () => void;
  readonly restore: () => Promise<void>;
  /** When a client sends that text: everything is cut once it was passed on, so that the answer never comes. */
  readonly cutAfter: (text: string) => void;
  readonly close: () => Promise<void>;
}

interface Pair {
  readonly client: Socket;
  readonly upstream: Socket;
}

const startTcpProxy = async (target: { readonly host: string; readonly port: number }): Promise<TcpProxy> => {
  const pairs = new Set<Pair>();
  let hanging = false;
  let trap: string | undefined;
  let server: Server | undefined;

  const cut = (): void => {
    for (const { client, upstream } of pairs) {
      client.destroy();
      upstream.destroy();
    }
  };

  const flow = ({ client, upstream }: Pair): void => {
    for (const socket of [client, upstream]) {
      if (hanging) socket.pause();
      else socket.resume();
    }
  };

  const accept = (client: Socket): void => {
    const upstream = connect(target);
    const pair = { client, upstream };
    pairs.add(pair);
    client.setNoDelay(true);
    upstream.setNoDelay(true);
    client.on('data', (chunk) => {
      const springs = trap !== undefined && chunk.includes(trap);
      // Flushed, so that the server has it before the connection ends.
      upstream.write(chunk, () => springs && setImmediate(() => upstream.end()));
      if (!springs) return;
      trap = undefined;
      client.destroy();
    });
    upstream.on('data', (chunk) => client.write(chunk));
    client.on('close', () => {
      pairs.delete(pair);
      upstream.end();
    });
    upstream.on('close', () => client.destroy());
    for (const socket of [client, upstream]) socket.on('error', () => undefined);
    flow(pair);
  };

  const listen = async (port: number): Promise<number> => {
    server = createServer({ pauseOnConnect: true }, accept).listen(port, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  };

  const refuse = async (): Promise<void> => {
    const closing = server;
    server = undefined;
    cut();
    if (closing) await new Promise((resolve) => void closing.close(resolve));
  };

  const port = await listen(0);
  return {
    port,
    refuse,
    cut,
    hang: () => {
      hanging = true;
      for (const pair of pairs) flow(pair);
    },
    restore: async () => {
      hanging = false;
      for (const pair of pairs) flow(pair);
      if (server === undefined) await listen(port);
    },
    cutAfter: (text) => {
      trap = text;
    },
    close: refuse,
  };
};

/**
 * A proxy in front of the server of a database or Redis URL, and the URL that goes through it: never by a Unix socket.
 */
export const startProxyTo = async (url: string): Promise<{ readonly proxy: TcpProxy; readonly url: string }> => {
  const through = new URL(url);
  const proxy = await startTcpProxy({ host: through.hostname, port: Number(through.port) });
  through.host = `127.0.0.1:${proxy.port}`;
  for (const socket of ['host', 'path']) through.searchParams.delete(socket);
  return { proxy, url: through.toString() };
};
