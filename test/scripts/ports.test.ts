import { type Server, createServer } from 'node:net';
import test from 'ava';
import { PortTaken, StartError } from '#scripts/errors.ts';
import { freePortAnywhere, freePortFrom, isFree, onFreePort } from '#scripts/infra/ports.ts';

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

test('a port that another program took meanwhile is chosen again; another fault is not tried again', async (t) => {
  const said: string[] = [];
  const print = (line: string): void => void said.push(line);
  let started = 0;
  const port = await onFreePort(() => {
    started += 1;
    return started < 3 ? Promise.reject(new PortTaken(1)) : Promise.resolve(started);
  }, print);
  t.deepEqual([port, said.length], [3, 2]);
  started = 0;
  const other = (): Promise<never> => {
    started += 1;
    return Promise.reject(new StartError('no'));
  };
  await t.throwsAsync(() => onFreePort(other, print), { message: 'no' });
  t.is(started, 1);
  await t.throwsAsync(() => onFreePort(() => Promise.reject(new PortTaken(1)), print), { instanceOf: PortTaken });
});
