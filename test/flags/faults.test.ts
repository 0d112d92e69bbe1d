import test from 'ava';
import { startApi } from '#api/api.ts';
import { memoryLog } from '#test/support/platform.ts';
import { useFaultyPlatform } from '#test/support/faulty-platform.ts';
import { until } from '#test/support/until.ts';
import { ofrepFault } from './ofrep-shapes.ts';

const platform = useFaultyPlatform(test);

const scene = async () => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const manage = (method: string, path: string, body?: unknown) =>
    client.call(method, `/projects/${project.id}${path}`, { token: user.token, ...(body !== undefined && { body }) });
  await manage('POST', '/flags', { key: 'a', flag_type: 'string', value: 'one' });
  const path = `/p/${project.ref}/ofrep/v1/evaluate/flags/a`;
  const ask = () => client.call('POST', path, { key: project.publishableKey, body: { context: {} } });
  return { client, user, project, manage, ask, path };
};

test.serial('while PostgreSQL is away the last known flags are served, and say so', async (t) => {
  const { ask, manage } = await scene();
  t.deepEqual((await ask()).body, { key: 'a', value: 'one', reason: 'STATIC', variant: 'value' });
  for (const breakIt of [platform().postgres.refuse, () => Promise.resolve(platform().postgres.hang())]) {
    await breakIt();
    await until(async () => (await ask()).body.metadata?.stale === true);
    t.like((await ask()).body, { value: 'one' });
    await platform().postgres.restore();
    await until(async () => (await ask()).body.metadata === undefined);
  }
  await until(async () => (await manage('PATCH', '/flags/a', { value: 'two' })).status === 200);
  await until(async () => (await ask()).body.value === 'two');
});

test.serial('while Redis is away flags are served as stale, and changes are found without its messages', async (t) => {
  const { ask, manage, project, path } = await scene();
  await ask();
  const { log } = memoryLog();
  const other = await startApi(platform().config, log);
  t.teardown(async () => {
    other.server.closeAllConnections();
    await other.stop();
  });
  const askOther = () =>
    fetch(`http://127.0.0.1:${other.port}${path}`, {
      method: 'POST',
      headers: { apikey: project.publishableKey, 'content-type': 'application/json' },
      body: '{}',
    }).then((answer) => answer.json() as Promise<{ value?: unknown; metadata?: { stale?: boolean } }>);
  t.is((await askOther()).value, 'one');
  await platform().redis.refuse();
  await until(async () => (await askOther()).metadata?.stale === true);
  t.is((await manage('PATCH', '/flags/a', { value: 'two' })).status, 200);
  // The other process gets no message, and this one none of its own.
  await until(async () => (await ask()).body.value === 'two');
  await until(async () => (await askOther()).value === 'two');
  await platform().redis.restore();
  await until(async () => (await askOther()).metadata === undefined);
});

test.serial('a change that no message told of is in force', async (t) => {
  const { ask, project } = await scene();
  await ask();
  await platform().db.transaction(
    async (tx) => {
      await tx.query('update flag_sets set version = version + 1 where project_id = $1', [project.id]);
      await tx.query(
        `update flags f set definition = replace(definition::text, '"one"', '"three"')::json, version = f.version + 1,
           set_version = s.version from flag_sets s where s.project_id = $1 and f.project_id = $1`,
        [project.id],
      );
      await tx.query(
        `update flag_environments e set version = s.version from flag_sets s
         where s.project_id = $1 and e.project_id = $1`,
        [project.id],
      );
    },
    { 'plinth.actor': '{"type":"system"}' },
  );
  await until(async () => (await ask()).body.value === 'three');
  t.pass();
});

test.serial('a process that knows no flags says that it cannot answer while PostgreSQL is away', async (t) => {
  const { project, path } = await scene();
  const { log } = memoryLog();
  const starting: Promise<Awaited<ReturnType<typeof startApi>>>[] = [];
  const start = () => {
    const started = startApi({ ...platform().config, PLINTH_MIGRATE: 'off' }, log);
    starting.push(started);
    return started;
  };
  t.teardown(async () => {
    for (const { server, stop } of await Promise.all(starting)) {
      server.closeAllConnections();
      await stop();
    }
  });
  const askAt = async ({ port }: { readonly port: number }) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      headers: { apikey: project.publishableKey, 'content-type': 'application/json' },
      body: '{}',
    });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  };
  const fresh = await start();
  await platform().postgres.refuse();
  const refused = await askAt(fresh);
  t.is(refused.status, 503);
  t.is(refused.body['errorCode'], 'GENERAL');
  t.is(ofrepFault('single 400', refused.body), null);
  // One that starts meanwhile answers once PostgreSQL is there.
  const late = start();
  await platform().postgres.restore();
  t.is((await askAt(await late)).body['value'], 'one');
  await until(async () => (await askAt(fresh)).body['value'] === 'one');
});

test.serial('a scheduled change that was due while everything was down is carried out once, late', async (t) => {
  const { manage } = await scene();
  await platform().postgres.refuse();
  await platform().postgres.restore();
  const at = new Date(Date.now() - 3_600_000).toISOString();
  const made = await until(async () => {
    const answer = await manage('POST', '/flags/a/schedule', { at, patch: { value: 'late' } });
    return answer.status === 201 && answer;
  });
  t.is(made.body.status, 'pending');
  await until(async () => (await manage('GET', '/flags/a')).body.value === 'late');
  t.is((await manage('GET', '/flags/a')).body.version, 2);
});
