import test from 'ava';
import { createCallLog } from '#domain/ai/usage/call-log.ts';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { madeEnd, madeIntent, silent } from './usage-scene.ts';

const platform = usePlatform(test, { shared: true });

const noDetails = {
  prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 0 },
};

const noBudget = { monthly_usd: null, hard: false, used_usd: null };

const scene = async () => {
  const { client, db } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const log = createCallLog({ db, log: silent });
  const call = (method: string, path: string, body?: unknown) =>
    client.call(method, `/projects/${project.id}/ai/${path}`, {
      token: user.token,
      ...(body !== undefined && { body }),
    });
  /** The budget, and when the month after this one begins. */
  const budget = async () => {
    const { resets_at: resetsAt, ...rest } = (await call('GET', 'budget')).body;
    return { rest, resetsAt };
  };
  return { project, log, call, budget };
};

test('the usage of a project is what its calls were, in the shapes of the contract', async (t) => {
  const { project, log, call } = await scene();
  const intent = madeIntent(project.id, { kind: 'stream' });
  const open = log.begin(intent);
  await open.recorded;
  open.end(madeEnd({ ttftMs: 4 }));
  await log.settled();
  const answer = await call('GET', 'usage');
  t.is(answer.status, 200, answer.text);
  const { recent_logs: logs, by_day: byDay, ...sums } = answer.body;
  t.deepEqual(sums, {
    total_requests: 1,
    total_tokens: { prompt: 3, completion: 2 },
    total_cost_nano_usd: 10,
    ...noDetails,
    by_provider: { openai: { requests: 1, tokens: 5, cost_nano_usd: 10, ...noDetails } },
  });
  t.is(byDay.length, 1);
  t.deepEqual(logs, [
    {
      id: intent.id,
      created_at: intent.startedAt.toISOString(),
      kind: 'stream',
      provider: 'openai',
      model: 'gpt-4o-mini',
      status: 'success',
      prompt_tokens: 3,
      completion_tokens: 2,
      prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
      service_tier: null,
      tokens_source: 'reported',
      cost_nano_usd: 10,
      latency_ms: 5,
      ttft_ms: 4,
      error_code: null,
      error_message: null,
      retries: 0,
      api_key_id: null,
      request_id: 'test',
    },
  ]);
});

test('the last 50 calls are listed, the newest first', async (t) => {
  const { project, log, call } = await scene();
  const intents = Array.from({ length: 53 }, () => madeIntent(project.id));
  for (const intent of intents) log.begin(intent).end(madeEnd());
  await log.settled();
  const { recent_logs: logs, total_requests: total } = (await call('GET', 'usage?days=365')).body;
  t.is(total, 53);
  t.deepEqual(
    logs.map(({ id }: { id: string }) => id),
    intents
      .slice(3)
      .toReversed()
      .map(({ id }) => id),
  );
});

test('a number of days that is none, or out of range, is 400', async (t) => {
  const { call } = await scene();
  for (const days of ['0', '366', '-1', '1.5', 'x', '', '1e1', '0x10'])
    isError(t, await call('GET', `usage?days=${days}`), 400, 'validation_failed');
  for (const days of ['1', '365']) t.is((await call('GET', `usage?days=${days}`)).status, 200);
});

test('a budget is set, changed, read and removed; it names when its month is over', async (t) => {
  const { project, log, call, budget } = await scene();
  const { resetsAt } = await budget();
  t.regex(resetsAt, /^\d{4}-\d\d-01T00:00:00\.000Z$/);
  t.true(Date.parse(resetsAt) > Date.now());
  t.deepEqual((await budget()).rest, noBudget);
  t.is((await call('DELETE', 'budget')).status, 204);
  t.deepEqual((await call('PUT', 'budget', { monthly_usd: 12.5, hard: true })).body, {
    monthly_usd: 12.5,
    hard: true,
    used_usd: 0,
  });
  const open = log.begin(madeIntent(project.id, { reserveNanoUsd: 1e9 }));
  await open.recorded;
  open.end(madeEnd({ costNanoUsd: 250_000_000 }));
  await log.settled();
  const changed = { monthly_usd: 0, hard: false, used_usd: 0.25 };
  t.deepEqual((await call('PUT', 'budget', { monthly_usd: 0, hard: false })).body, changed);
  t.deepEqual((await budget()).rest, changed);
  t.is((await call('DELETE', 'budget')).status, 204);
  t.deepEqual((await budget()).rest, noBudget);
});

test('a budget that is no amount of money is 400', async (t) => {
  const { call, budget } = await scene();
  const bodies = [
    {},
    { monthly_usd: 1 },
    { hard: true },
    { monthly_usd: -0.01, hard: true },
    { monthly_usd: '1', hard: true },
    { monthly_usd: null, hard: true },
    { monthly_usd: 1e300, hard: true },
    { monthly_usd: 1, hard: 'yes' },
    { monthly_usd: 1, hard: true, used_usd: 0 },
  ];
  for (const body of bodies) isError(t, await call('PUT', 'budget', body), 400, 'validation_failed');
  t.deepEqual((await budget()).rest, noBudget);
});
