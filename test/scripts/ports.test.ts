import { createServer, type Server } from 'node:net';
import test from 'ava';
import { freePortAnywhere, freePortFrom, isFree } from '#scripts/infra/ports.ts';

const listenOn = (port: number): Promise<Server> =>
  new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => resolve(server));
  });

test('a port that is taken is passed over for the next free one', async (t) => {
  const port = await freePortAnywhere();
  const server = await listenOn(port);
  t.teardown(() => server.close());
  t.false(await isFree(port));
  t.true((await freePortFrom(port)) > port);
});

test('a port found free can be listened on', async (t) => {
  const port = await freePortAnywhere();
  t.true(await isFree(port));
  const server = await listenOn(port);
  server.close();
});
