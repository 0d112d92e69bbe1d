import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import test from 'ava';
import { createEgress } from '#lib/egress.ts';
import { CallFault } from '#workers/runtimes/runtime.ts';
import { fetchService } from '#workers/services/fetch/service.ts';
import { servicesOf } from '#workers/services/services.ts';

const egress = createEgress({ allow: '127.0.0.1', local: false });
test.after.always(() => egress.close());

const open = () =>
  servicesOf([fetchService({ egress })])({ projectId: 'p', timeoutMs: 30_000, signal: new AbortController().signal });

test('a request that was cancelled without an answer keeps its place: its connection may still be made', async (t) => {
  const server = createServer((socket) => void socket.on('error', () => undefined)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const run = open();
  const cancelled = async (id: number): Promise<string> => {
    const requested = run.call('fetch', JSON.stringify({ id, url })).catch((error: unknown) => error);
    await run.call('fetch.cancel', JSON.stringify({ id }));
    const fault = await requested;
    return fault instanceof CallFault ? fault.message : String(fault);
  };
  for (let id = 0; id < 64; id += 1) t.is(await cancelled(id), 'The request was cancelled.');
  t.regex(await cancelled(64), /more than 64 requests are open/);
  await run.close();
});

test('a list of headers without end is refused before it is looked at', async (t) => {
  const run = open();
  for (const header of ['0', '["a","b"]']) {
    const headers = `[${`${header},`.repeat(100_000)}${header}]`;
    const text = `{"id":1,"url":"http://127.0.0.1/","headers":${headers}}`;
    await t.throwsAsync(run.call('fetch', text), { instanceOf: CallFault, message: /more than 1000 headers/ });
  }
  await run.close();
});
