import { once } from 'node:events';
import { type AddressInfo, type Socket, connect, createServer } from 'node:net';
import test, { type ExecutionContext } from 'ava';
import { type EgressOptions, createEgress } from '#lib/egress.ts';
import { createGuestProxy } from '#workers/runtimes/egress-proxy.ts';

const listening = async (t: ExecutionContext, onConnection: (socket: Socket) => void) => {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
    onConnection(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
};

const settings: EgressOptions = { allow: '127.0.0.1', local: false, resolve: async () => ['127.0.0.1'] };

const proxy = async (t: ExecutionContext) => {
  const egress = createEgress(settings);
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const network = createGuestProxy(egress)(listener);
  network.open();
  t.teardown(async () => {
    network.shut();
    listener.close();
    await egress.close();
  });
  const { port } = listener.address() as AddressInfo;
  return () => connect(port, '127.0.0.1').on('error', () => undefined);
};

test('a connection carries one request at a time: one with a second before the answer is cut off', async (t) => {
  let connections = 0;
  const port = await listening(t, () => (connections += 1));
  const client = (await proxy(t))();
  const one = `GET http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: x\r\n\r\n`;
  client.write(one.repeat(500));
  await once(client.resume(), 'close');
  t.true(connections <= 1);
});

test('one request after the other may come on a connection', async (t) => {
  const port = await listening(
    t,
    (socket) => void socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi')),
  );
  const client = (await proxy(t))();
  for (let turn = 0; turn < 3; turn += 1) {
    client.write(`GET http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: x\r\n\r\n`);
    let text = '';
    while (!text.endsWith('hi')) text += String((await once(client, 'data'))[0]);
    t.regex(text, /^HTTP\/1\.1 200/);
  }
  client.destroy();
});

test('requests whose client has gone count until their connection can have been given up', async (t) => {
  const arrivals: (() => void)[] = [];
  const port = await listening(t, () => arrivals.shift()?.());
  const open = await proxy(t);
  const request = `GET http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
  for (let count = 0; count < 64; count += 1) {
    const arrived = new Promise<void>((resolve) => arrivals.push(resolve));
    const client = open();
    client.write(request);
    await arrived;
    client.destroy();
    await once(client, 'close');
  }
  const last = open();
  last.write(request);
  t.regex(String((await once(last, 'data'))[0]), /^HTTP\/1\.1 503 /);
});
