import test from 'ava';
import type { Answer } from '#test/support/client.ts';
import { useFaultyPlatform } from '#test/support/faulty-platform.ts';
import { longTestMs, patienceMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';

const platform = useFaultyPlatform(test);

/** A hang is a failure of its own: 2 s are promised, the bound leaves room for a machine that others keep busy. */
const soon = (answer: Promise<Answer>): Promise<Answer> => {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error('no answer for a long time')), patienceMs / 4);
  return Promise.race([answer, late.promise]).finally(() => clearTimeout(timer));
};

const scene = async () => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, 'exports.handler = (x) => x');
  const read = () => client.call('GET', `/projects/${project.id}`, { token: user.token });
  return { client, user, project, fn, read };
};

const faults = {
  refuses: () => platform().postgres.refuse(),
  hangs: () => platform().postgres.hang(),
} as const;

for (const [fault, begin] of Object.entries(faults)) {
  test.serial(`while Postgres ${fault} requests are answered with 503, and served again when it is back`, async (t) => {
    t.timeout(longTestMs);
    const { client, user, project, fn, read } = await scene();
    // Whatever fails here is this test's failure alone.
    t.teardown(() => platform().postgres.restore());
    await begin();
    const calls = [
      read(),
      client.call('POST', '/projects', { token: user.token, body: { name: 'Half', slug: `half_${fault}` } }),
      client.call('POST', '/auth/login', { body: { email: user.email, password: user.password } }),
      client.call('POST', `/projects/${project.id}/functions/${fn.id}/invoke`, {
        token: user.token,
        body: { payload: 1 },
      }),
      client.call('POST', `/api/functions/${fn.slug}`, { key: project.key, body: 1 }),
    ];
    for (const answer of await Promise.all(calls.map(soon))) {
      t.is(answer.status, 503);
      // A process whose own event loop lags cannot tell a server that hangs from one that is slow.
      t.true(['dependency_unavailable', 'overloaded'].includes(answer.body.code));
      t.truthy(answer.headers.get('retry-after'));
      t.false(/ECONN|postgres|127\.0\.0\.1|select/i.test(answer.text));
    }
    const ready = await soon(client.call('GET', '/readyz'));
    t.is(ready.status, 503);
    t.is((await client.call('GET', '/healthz')).status, 200);
    await platform().postgres.restore();
    await until(async () => (await read()).status === 200);
    await until(async () => (await client.invoke(user, project, fn, 7)).body.result === 7);
    await until(async () => (await client.call('GET', '/readyz')).status === 200);
    t.is((await platform().db.query(`select from projects where slug = $1`, [`half_${fault}`])).length, 0);
  });
}

test.serial('connections that were cut while idle cost at most their own request', async (t) => {
  const { read } = await scene();
  platform().postgres.cut();
  await until(async () => (await soon(read())).status === 200);
  t.is((await read()).status, 200);
});

test.serial('a creation whose commit is cut off is answered with 503 and leaves nothing behind', async (t) => {
  const { client, user } = await scene();
  platform().postgres.cutAfter('commit');
  const create = () => client.call('POST', '/projects', { token: user.token, body: { name: 'Cut', slug: 'cut_off' } });
  t.is((await soon(create())).status, 503);
  // The commit may be carried out after the answer; what it wrote is deleted then.
  await until(async () => (await create()).status === 201);
});

test.serial('an end that Postgres cannot take at once is recorded later, and its caller is told', async (t) => {
  const { client, user, project } = await scene();
  const code = 'exports.handler = () => new Promise((resolve) => setTimeout(resolve, 700, "done"))';
  const slow = await client.deploy(user, project, code);
  // The worker keeps the code from its first run.
  await client.invoke(user, project, slow, null);
  const answer = client.invoke(user, project, slow, null);
  const jobs = () =>
    platform().db.query<{ status: string }>('select status from jobs where project_id = $1 order by id', [project.id]);
  // The creation, the first run, and this one.
  await until(async () => (await jobs())[2]?.status === 'running');
  await platform().postgres.refuse();
  t.like((await answer).body, { status: 'success', result: 'done' });
  await until(() => platform().logged().includes('recording the ends of jobs failed'));
  await platform().postgres.restore();
  const { invocation_id: id } = (await answer).body;
  await until(async () => {
    const [row] = await platform().db.query<{ status: string }>('select status from jobs where id = $1', [id]);
    return row?.status === 'succeeded';
  });
  await until(async () => (await jobs()).every(({ status }) => status === 'succeeded'));
  t.is((await jobs()).length, 3);
});
