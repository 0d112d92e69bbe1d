import test from 'ava';
import type { Answer, TestProject, TestUser } from '#test/support/client.ts';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { readyProject } from './ready-project.ts';

const platform = usePlatform(test, { worker: false });

let owner: TestUser;
let project: TestProject;

test.before('there is a project on the pro plan', async () => {
  owner = await platform().client.signUp();
  project = await readyProject(platform(), owner, 'pro');
});

const call = (method: string, path: string, body: unknown, of = project): Promise<Answer> =>
  platform().client.call(method, `/projects/${of.id}/cron${path}`, { token: owner.token, body });

const sql = { type: 'sql', sql: 'select 1' };
const nightly = { name: 'nightly', schedule: '30 2 * * *', target: sql };

const bad: readonly [what: string, fields: object, path: string][] = [
  ['no name', { name: undefined }, 'name'],
  ['no schedule', { schedule: undefined }, 'schedule'],
  ['no target', { target: undefined }, 'target'],
  ['a schedule that cannot be read', { schedule: '61 * * * *' }, 'schedule'],
  ['a schedule that never fires', { schedule: '0 0 30 2 *' }, 'schedule'],
  ['a time zone that is none', { timezone: 'Mars/Olympus' }, 'timezone'],
  ['an unknown overlap rule', { overlap: 'never' }, 'overlap'],
  ['an unknown misfire rule', { misfire: 'never' }, 'misfire'],
  ['an unknown target', { target: { type: 'mail' } }, 'target.type'],
  ['a target with a field of another', { target: { ...sql, url: 'https://example.com' } }, 'target'],
  ['a function of nobody', { target: { type: 'function', function_id: crypto.randomUUID() } }, 'target.function_id'],
  ['a URL that is none', { target: { type: 'http', url: 'nowhere' } }, 'target.url'],
  ['a URL of another scheme', { target: { type: 'http', url: 'file:///etc/passwd' } }, 'target.url'],
  ['a URL with a password', { target: { type: 'http', url: 'https://a:b@example.com' } }, 'target.url'],
  ['SQL with NUL', { target: { type: 'sql', sql: 'select 1\0' } }, 'target.sql'],
  ['no SQL', { target: { type: 'sql', sql: '' } }, 'target.sql'],
  ['a payload of more than 64 KB', { payload: 'x'.repeat(65_536) }, 'payload'],
  ['a name that is no text', { name: 1 }, 'name'],
  ['an unknown field', { cron: 'x' }, ''],
];

for (const [what, fields, path] of bad) {
  test(`${what} is refused`, async (t) => {
    const answer = await call('POST', '', { ...nightly, ...fields });
    isError(t, answer, 400, 'validation_failed');
    t.is(answer.body.details[0].path, path);
  });
}

test('a payload is measured as it is written, not by the value that JavaScript makes of it', async (t) => {
  const { id } = (await call('POST', '', nightly)).body;
  const long = `{"payload":{"n":${'1'.repeat(900_000)}}`;
  for (const [method, path, raw] of [
    ['POST', '', `${long},${JSON.stringify(nightly).slice(1)}`],
    ['PATCH', `/${id}`, `${long}}`],
  ] as const) {
    const answer = await platform().client.call(method, `/projects/${project.id}/cron${path}`, {
      token: owner.token,
      raw,
    });
    isError(t, answer, 400, 'validation_failed');
    t.is(answer.body.details[0].path, 'payload');
  }
});

test('a payload of more values than 64 KB hold is refused before all of them are read', async (t) => {
  const { id } = (await call('POST', '', nightly)).body;
  const raw = `{"payload":[1.50${',0'.repeat(480_000)}]}`;
  const { client } = platform();
  const answer = await client.call('PATCH', `/projects/${project.id}/cron/${id}`, { token: owner.token, raw });
  isError(t, answer, 400, 'validation_failed');
  t.deepEqual(answer.body.details, [{ path: 'payload', message: 'must be at most 65536 bytes of JSON' }]);
});

test('payloads of 64 KB are listed as they are written, whatever they hold', async (t) => {
  const payload = `[1.50${',0'.repeat(32_700)}]`;
  const raw = `{"payload":${payload},${JSON.stringify(nightly).slice(1)}`;
  const { client } = platform();
  const path = `/projects/${project.id}/cron`;
  const made = await client.call('POST', path, { token: owner.token, raw });
  t.is(made.status, 201, made.text);
  for (const at of [path, `${path}/${made.body.id}`])
    t.true((await client.call('GET', at, { token: owner.token })).text.includes(`"payload":${payload}`), at);
});

test('a payload of 64 KB exactly is taken', async (t) => {
  t.is((await call('POST', '', { ...nightly, payload: 'x'.repeat(65_534) })).status, 201);
  const { id } = (await call('POST', '', nightly)).body;
  isError(t, await call('PATCH', `/${id}`, { payload: 'x'.repeat(65_535) }), 400, 'validation_failed');
});

test('a change is checked as a creation is', async (t) => {
  const { id } = (await call('POST', '', nightly)).body;
  for (const change of [{ schedule: '* * *' }, { timezone: 'x' }, { target: { type: 'function', function_id: id } }]) {
    isError(t, await call('PATCH', `/${id}`, change), 400, 'validation_failed');
  }
});

for (const [plan, schedule, status] of [
  ['free', '*/10 * * * * *', 403],
  ['free', '0,59 * * * * *', 403],
  ['free', '0 * * * * *', 201],
  ['free', '* * * * *', 201],
  ['pro', '*/10 * * * * *', 201],
  ['pro', '*/9 * * * * *', 403],
  ['enterprise', '*/5 * * * * *', 403],
] as const) {
  test(`${schedule} on the ${plan} plan: ${status}`, async (t) => {
    const answer = await call('POST', '', { ...nightly, schedule }, await readyProject(platform(), owner, plan));
    if (status === 201) t.is(answer.status, 201, answer.text);
    else isError(t, answer, 403, 'plan_limit_exceeded');
  });
}

test('a project has at most 1,000 schedules', async (t) => {
  const own = await readyProject(platform(), owner, 'pro');
  await platform().db.transaction(
    (tx) =>
      tx.query(
        `insert into schedules (id, project_id, name, schedule, timezone, target, payload, enabled, overlap, misfire)
         select uuid_v7(), $1, 'x', '@daily', 'UTC', '{"type":"sql","sql":"select 1"}', 'null', false, 'skip', 'once'
         from generate_series(1, 999)`,
        [own.id],
      ),
    { 'plinth.actor': '{"type":"system"}' },
  );
  const answers = await Promise.all([1, 2, 3].map(() => call('POST', '', nightly, own)));
  t.deepEqual(
    answers.map(({ status }) => status).toSorted((a, b) => a - b),
    [201, 403, 403],
  );
});
