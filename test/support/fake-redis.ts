import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/** Speaks as much of Redis' protocol as a connection needs to become ready, with answers of the test's own. */
export interface FakeRedis {
  readonly url: string;
  /** How many connections were made so far. */
  readonly connections: () => number;
  readonly close: () => Promise<void>;
}

export interface FakeInfo {
  readonly role?: 'master' | 'slave';
  readonly policy?: string;
}

const bulk = (text: string): string => `$${Buffer.byteLength(text)}\r\n${text}\r\n`;

const infoText = ({ role = 'master', policy = 'noeviction' }: FakeInfo): string =>
  `redis_version:7.0.0\r\nrun_id:fake\r\nloading:0\r\nrole:${role}\r\nmaxmemory_policy:${policy}\r\n`;

/** The first words of the commands in a chunk; clients send each as an array of bulk strings. */
const commandsIn = (text: string): string[] =>
  [...text.matchAll(/\*\d+\r\n\$\d+\r\n(\w+)\r\n/g)].map(([, name]) => (name ?? '').toLowerCase());

/**
 * @param infoOf what the nth connection (from 1 on) finds
 * A connection that finds a replica has its writes refused, as a master's that was demoted while it was open.
 */
export const startFakeRedis = async (infoOf: (connection: number) => FakeInfo): Promise<FakeRedis> => {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    const info = infoOf(connections);
    const answers: Readonly<Record<string, string>> = {
      info: bulk(infoText(info)),
      set: info.role === 'slave' ? "-READONLY You can't write against a read only replica.\r\n" : '+OK\r\n',
      ping: '+PONG\r\n',
    };
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      for (const name of commandsIn(chunk.toString())) socket.write(answers[name] ?? '+OK\r\n');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => connections,
    close: async () => {
      server.close();
      await Promise.resolve();
    },
  };
};
