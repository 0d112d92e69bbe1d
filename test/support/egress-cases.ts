import { once } from 'node:events';
import { type RequestListener, type Server, createServer } from 'node:http';
import { type AddressInfo, type Server as TcpServer, createServer as createTcpServer } from 'node:net';
import type { TestFn } from 'ava';
import type { EgressOptions } from '#lib/egress.ts';

/** Where a request is meant to go: the host as somebody may write it. */
interface EgressTarget {
  readonly host: string;
  readonly port: number;
  /** `http://{host}:{port}/`. */
  readonly url: string;
}

/**
 * Makes a request the way a user of the egress guard does it. `refused`: it said so, on save or at delivery; what was
 * answered counts as `reached`; everything else is thrown.
 */
export type EgressCall = (target: EgressTarget) => Promise<'refused' | 'reached'>;

export interface EgressCasesOptions {
  /** Begins the titles. */
  readonly what: string;
  /** Makes the user with these settings; ended by the caller's own hooks. */
  readonly make: (settings: EgressOptions) => Promise<EgressCall> | EgressCall;
  /** Whether the user takes URLs, rather than hosts and ports. */
  readonly takesUrls: boolean;
  /** Whether names can be answered by the test (`settings.resolve`). */
  readonly takesNames: boolean;
}

/** All of these mean this machine, or something else that is not public. */
export const closedHosts: Readonly<Record<string, string>> = {
  loopback: '127.0.0.1',
  'loopback, not the first address': '127.8.9.10',
  'decimal number': '2130706433',
  'octal numbers': '0177.0.0.1',
  'octal number': '017700000001',
  'hexadecimal numbers': '0x7f.1',
  'hexadecimal number': '0x7F000001',
  'mixed numbers': '0x7f.0.0.01',
  'two parts': '127.1',
  'three parts': '127.0.1',
  'a trailing dot': '127.0.0.1.',
  'a trailing dot after a number': '2130706433.',
  'full-width digits': '１２７.０.０.１',
  'circled digits': '①②⑦.⓪.⓪.①',
  'ideographic full stops': '127。0。0。1',
  'percent-encoded digits': '%31%32%37.0.0.1',
  'this network': '0.0.0.0',
  'the number zero': '0',
  localhost: 'localhost',
  'localhost in capitals': 'LOCALHOST',
  'localhost with a dot': 'localhost.',
  'below localhost': 'a.b.localhost',
  'localhost in full-width letters': 'ｌｏｃａｌｈｏｓｔ',
  'IPv6 loopback': '[::1]',
  'IPv6 loopback in full': '[0000:0000:0000:0000:0000:0000:0000:0001]',
  'IPv6 unspecified': '[::]',
  'IPv4-mapped': '[::ffff:127.0.0.1]',
  'IPv4-mapped in hexadecimal': '[::FFFF:7f00:1]',
  'IPv4-mapped in full': '[0:0:0:0:0:ffff:7f00:0001]',
  'IPv4-mapped unspecified': '[::ffff:0:0]',
  'IPv4-compatible': '[::127.0.0.1]',
  'IPv4-translated': '[::ffff:0:127.0.0.1]',
  NAT64: '[64:ff9b::127.0.0.1]',
  'NAT64, a private address': '[64:ff9b::a00:1]',
  'NAT64, the metadata service': '[64:ff9b::169.254.169.254]',
  'NAT64, local': '[64:ff9b:1::127.0.0.1]',
  '6to4': '[2002:7f00:1::]',
  Teredo: '[2001:0:7f00:1::80ff:fffe]',
  'a zone': '[fe80::1%25lo]',
  'a zone, not encoded': '[fe80::1%lo]',
  'loopback with a zone': '[::1%25lo]',
  'link-local IPv6': '[fe80::1]',
  'site-local': '[fec0::1]',
  'unique local': '[fd12:3456:789a::1]',
  'metadata over IPv6': '[fd00:ec2::254]',
  'multicast IPv6': '[ff02::1]',
  'documentation IPv6': '[2001:db8::1]',
  'documentation IPv6, the second': '[3fff::1]',
  'discard-only': '[100::1]',
  'segment routing': '[5f00::1]',
  'private 10': '10.0.0.1',
  'private 172': '172.31.255.254',
  'private 192': '192.168.1.1',
  'carriers’': '100.64.0.1',
  metadata: '169.254.169.254',
  'metadata as a number': '2852039166',
  'metadata of one cloud': '100.100.100.200',
  'metadata of another cloud': '192.0.0.192',
  'the host of a cloud machine': '168.63.129.16',
  documentation: '203.0.113.7',
  benchmarks: '198.19.0.1',
  'relays of 6to4': '192.88.99.1',
  multicast: '239.255.255.250',
  reserved: '250.1.2.3',
  broadcast: '255.255.255.255',
};

/** Each as all that a name answers, and each beside a public address. */
const closedAnswers = [
  '127.0.0.1',
  '10.1.2.3',
  '169.254.169.254',
  '0.0.0.0',
  '::1',
  '::',
  '::ffff:127.0.0.1',
  '::ffff:a9fe:a9fe',
  '64:ff9b::7f00:1',
  '2002:a00:1::1',
  'fe80::1',
  'fe80::1%1',
  '::1%lo',
  'fd00::1',
];

export const publicAddresses = [
  '1.1.1.1',
  '8.8.8.8',
  '172.15.255.255',
  '172.32.0.0',
  '100.63.255.255',
  '100.128.0.0',
  '198.17.255.255',
  '198.20.0.0',
  '223.255.255.255',
  '11.0.0.0',
  '2606:4700:4700::1111',
  '2a00:1450:4001:80b::200e',
  '2001:200::1',
  '::ffff:8.8.8.8',
  '64:ff9b::808:808',
];

export interface HitServer {
  readonly port: number;
  /** Connections that were made to it, whether or not they said anything. */
  readonly connections: () => number;
  readonly close: () => Promise<void>;
}

const listen = async (server: Server | TcpServer): Promise<HitServer> => {
  let connections = 0;
  server.on('connection', () => (connections += 1));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    close: async () => {
      if ('closeAllConnections' in server) server.closeAllConnections();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
};

/** A server on 127.0.0.1 that knows whether anybody came. */
export const startHitServer = (answer: RequestListener = (_request, response) => void response.end('hit')) =>
  listen(createServer(answer));

/** The same for what is not HTTP: says `banner` to everyone. */
export const startBannerServer = (banner: string) =>
  listen(
    createTcpServer(
      (socket) =>
        void socket
          .on('error', () => undefined)
          .resume()
          .end(banner),
    ),
  );

const targetOf = (host: string, port: number): EgressTarget => ({ host, port, url: `http://${host}:${port}/` });

const never = (): Promise<never> => Promise.reject(new Error('this name was not to be looked up'));

const onServer = async (work: (server: HitServer) => Promise<void>): Promise<void> => {
  const server = await startHitServer();
  try {
    await work(server);
  } finally {
    await server.close();
  }
};

/** Every form of an address that must be refused, for everything that lets strangers say where a request goes. */
export const egressCases = (test: TestFn, { what, make, takesUrls, takesNames }: EgressCasesOptions): void => {
  for (const [form, host] of Object.entries(closedHosts)) {
    test(`${what}: ${form} is refused and nothing is reached: ${host}`, (t) =>
      onServer(async (server) => {
        const call = await make({ allow: '', local: true, resolve: never });
        t.is(await call(targetOf(host, server.port)), 'refused');
        t.is(server.connections(), 0);
      }));
  }

  test(`${what}: what the list opens is reached, its neighbours are not`, (t) =>
    onServer(async (server) => {
      const call = await make({ allow: '192.168.7.0/24, 127.0.0.1', local: false, resolve: never });
      t.is(await call(targetOf('127.0.0.1', server.port)), 'reached');
      t.is(await call(targetOf('[::ffff:127.0.0.1]', server.port)), 'reached');
      t.is(server.connections() > 0, true);
      for (const host of ['127.0.0.2', '192.168.8.1', '[::1]']) {
        t.is(await call(targetOf(host, server.port)), 'refused', host);
      }
    }));

  if (takesUrls) {
    for (const url of [
      'http://user@127.0.0.1:{port}/',
      'http://user:secret@example.com:{port}/',
      'http://example.com@127.0.0.1:{port}/',
      'http://example.com:80@127.0.0.1:{port}/',
      'http:\\\\127.0.0.1:{port}\\',
      'http:127.0.0.1:{port}/',
      ' http://127.0.0.1:{port}/',
      'h\tttp://127.0.\n0.1:{port}/',
      'HTTP://127.0.0.1:{port}/',
      'ftp://example.com:{port}/',
      'file:///etc/passwd',
      'gopher://127.0.0.1:{port}/_x',
      'data:text/plain,x',
      'http://',
      'http://[::1/',
      '//127.0.0.1:{port}/',
      '127.0.0.1:{port}',
      '',
    ]) {
      test(`${what}: this URL is refused: ${JSON.stringify(url)}`, (t) =>
        onServer(async (server) => {
          const call = await make({ allow: '', local: true, resolve: never });
          const written = url.replace('{port}', String(server.port));
          t.is(await call({ host: '127.0.0.1', port: server.port, url: written }), 'refused');
          t.is(server.connections(), 0);
        }));
    }
  }

  if (!takesNames) return;

  for (const address of closedAnswers) {
    test(`${what}: a name that leads to ${address} is refused, alone and beside public addresses`, (t) =>
      onServer(async (server) => {
        for (const answers of [[address], ['1.1.1.1', address], [address, '2606:4700::1111']]) {
          const call = await make({ allow: '', local: true, resolve: () => Promise.resolve(answers) });
          t.is(await call(targetOf('rebind.example', server.port)), 'refused', answers.join(' '));
        }
        t.is(server.connections(), 0);
      }));
  }

  test(`${what}: a name is looked up once for a connection, and what was checked is what is connected to`, (t) =>
    onServer(async (server) => {
      let requested = 0;
      // A guard that resolves twice connects to an unchecked address.
      const resolve = () => Promise.resolve((requested += 1) === 1 ? ['127.0.0.1'] : ['127.0.0.2']);
      const call = await make({ allow: '127.0.0.1', local: false, resolve });
      t.is(await call(targetOf('rebind.example', server.port)), 'reached');
      t.is(requested, 1);
    }));

  test(`${what}: a name that changed its answer between two connections is refused at the second`, async (t) => {
    const server = await startHitServer((_request, response) => {
      response.setHeader('connection', 'close').end('hit');
    });
    let answer = '127.0.0.1';
    const call = await make({ allow: '127.0.0.1', local: false, resolve: () => Promise.resolve([answer]) });
    t.is(await call(targetOf('rebind.example', server.port)), 'reached');
    const before = server.connections();
    answer = '127.0.0.2';
    t.is(await call(targetOf('rebind.example', server.port)), 'refused');
    t.is(server.connections(), before);
    await server.close();
  });
};
