import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, {
  settings: { PLINTH_RATE_LIMITS: 'on', PLINTH_RATE_LIMIT_DATA_FREE: '3', PLINTH_RATE_LIMIT_DATA_PRO: '5' },
});

const statuses = async (plan: string, times: number): Promise<number[]> => {
  const { client } = platform();
  const project = await client.createProject(await client.signUp(), { plan });
  const answers = [];
  for (let n = 0; n < times; n += 1) answers.push(await client.call('GET', '/v1/rest/nothing', { key: project.key }));
  return answers.map(({ status }) => status);
};

for (const [plan, limit] of [
  ['free', 3],
  ['pro', 5],
] as const) {
  test(`a key of the ${plan} plan has its requests a minute, and then 429`, async (t) => {
    const seen = await statuses(plan, limit + 1);
    // The minute may turn in between: then it has as many again.
    t.true(seen.slice(0, limit).every((status) => status === 404));
    t.true([404, 429].includes(seen[limit] ?? 0));
    const more = await statuses(plan, limit * 2 + 1);
    t.true(more.includes(429));
  });
}

test('a key of the enterprise plan has no limit', async (t) => {
  const { client } = platform();
  const project = await client.createProject(await client.signUp(), { plan: 'enterprise' });
  for (let n = 0; n < 8; n += 1) {
    const { status, headers } = await client.call('GET', '/v1/rest/nothing', { key: project.key });
    t.is(status, 404);
    t.is(headers.get('ratelimit'), null);
  }
});

test('one key’s requests are not another’s', async (t) => {
  const { client } = platform();
  const project = await client.createProject(await client.signUp());
  const ask = (key: string) => client.call('GET', '/v1/rest/nothing', { key });
  for (let n = 0; n < 7; n += 1) await ask(project.key);
  const { status, headers } = await ask(project.publishableKey);
  t.is(status, 404);
  t.regex(headers.get('ratelimit-policy') ?? '', /"data-free";q=3;w=60/);
});
