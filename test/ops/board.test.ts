import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import test from 'ava';
import Koa, { type Middleware } from 'koa';
import { boardPages } from '#api/ops/pages.ts';
import { opsToken, testConfig } from '#test/support/platform.ts';

const board: Middleware = (ctx) => {
  ctx.body = 'the board';
};

test('a board that could not be loaded is loaded at the next visit, and once', async (t) => {
  let loads = 0;
  const load = (): Promise<Middleware> => {
    loads += 1;
    return loads === 1 ? Promise.reject(new Error('out of file handles')) : Promise.resolve(board);
  };
  const config = testConfig('postgres://u:p@127.0.0.1/x', { REDIS_URL: 'redis://127.0.0.1' });
  const app = new Koa().use(boardPages({ config }, load));
  app.silent = true;
  const server = app.listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/ops/bullmq`;
  const visit = async (): Promise<number> =>
    (await fetch(url, { headers: { authorization: `Bearer ${opsToken}` } })).status;
  t.is(await visit(), 500);
  t.is(await visit(), 200);
  t.is(await visit(), 200);
  t.is(loads, 2);
});
