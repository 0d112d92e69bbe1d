import test from 'ava';
import { isLanguageServed, sandboxFacts } from '#domain/functions/functions.ts';
import { opsToken, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import type { JobTypeStats, LiveWorker } from '#queues/gate/types.ts';
import { sandbox } from '#test/runtimes/harness.ts';

const platform = usePlatform(test, { worker: false });

const factsNow = async (): Promise<unknown> => (await platform().client.call('GET', '/readyz')).body.sandbox;

test.serial('readiness names the sandbox of each language once a worker that runs functions is alive', async (t) => {
  const before = await until(async () => {
    const answer = await platform().client.call('GET', '/readyz');
    return answer.status === 200 && answer;
  });
  t.is(before.body.sandbox, null);
  const stop = await platform().startWorker();
  const facts = (await until(factsNow)) as Record<string, string>;
  t.is(facts['javascript'], sandbox.level);
  for (const level of Object.values(facts)) t.is(level, sandbox.level);
  const ops = await fetch(`${platform().base}/ops/api/workers`, { headers: { authorization: `Bearer ${opsToken}` } });
  const { workers } = (await ops.json()) as { workers: { sandbox: unknown }[] };
  t.deepEqual(workers[0]?.sandbox, facts);
  await stop();
  await until(async () => (await factsNow()) === null);
});

const gateWith = (...facts: LiveWorker['sandbox'][]) => ({
  stats: () =>
    Promise.resolve({
      workers: facts.map((own, n) => ({ id: `${n}`, name: 'w', slots: 1, running: 0, startedAt: 0, sandbox: own })),
    } as unknown as JobTypeStats),
});

test('of several workers the weakest sandbox counts, for each language by itself', async (t) => {
  const gate = gateWith({ javascript: 'strict' }, { javascript: 'best-effort', python: 'strict' }, undefined);
  t.deepEqual(await sandboxFacts(gate), { javascript: 'best-effort', python: 'strict' });
  t.deepEqual(await sandboxFacts(gateWith({ javascript: 'strict' }, { javascript: 'strict' })), {
    javascript: 'strict',
  });
});

test('a language is refused only when live workers are known and none of them runs it', async (t) => {
  t.false(await isLanguageServed(gateWith({ javascript: 'strict' }), 'python'));
  t.true(await isLanguageServed(gateWith({ javascript: 'strict' }, { python: 'strict' }), 'python'));
  t.true(await isLanguageServed(gateWith(), 'python'));
  t.true(await isLanguageServed({ stats: () => Promise.reject(new Error('Connection is closed.')) }, 'python'));
});
