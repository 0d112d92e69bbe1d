import test from 'ava';
import { removeRedisKeys, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const flagBytes = 100_000;
/** No worker runs until a test starts one. */
const platform = usePlatform(test, { worker: false, settings: { PLINTH_FLAG_BYTES_FREE: String(flagBytes) } });

const scene = async () => {
  const { client, base } = platform();
  const user = await client.signUp();
  // A worker makes the project.
  const stopWorker = await platform().startWorker();
  const project = await client.createProject(user);
  await stopWorker();
  const manage = (method: string, path: string, body?: unknown) =>
    client.call(method, `/projects/${project.id}${path}`, { token: user.token, ...(body !== undefined && { body }) });
  await manage('POST', '/flags', { key: 'a', flag_type: 'string', value: 'one' });
  const askAt = async (url: string) => {
    const answer = await fetch(`${url}/p/${project.ref}/ofrep/v1/evaluate/flags/a`, {
      method: 'POST',
      headers: { apikey: project.publishableKey, 'content-type': 'application/json' },
      body: '{}',
    });
    return { status: answer.status, ...((await answer.json()) as { value?: unknown }) };
  };
  return { base, manage, askAt, project };
};

test.serial('flags outlast the loss of all that Redis keeps, and changes reach every process as before', async (t) => {
  const { base, manage, askAt } = await scene();
  const other = await platform().startApi();
  const ask = () => Promise.all([base, other].map(askAt));
  t.deepEqual(
    (await ask()).map(({ value }) => value),
    ['one', 'one'],
  );
  // The server's other databases are those of other tests: this is all that it would lose of this platform.
  await removeRedisKeys(platform().config);
  for (const { status, value } of await ask()) t.deepEqual({ status, value }, { status: 200, value: 'one' });
  t.is((await manage('PATCH', '/flags/a', { value: 'two' })).status, 200);
  await until(async () => (await ask()).every(({ value }) => value === 'two'));
});

test.serial('changes that became due while no worker ran are carried out once, in their order', async (t) => {
  const { manage } = await scene();
  const values = Array.from({ length: 30 }, (_, n) => `change ${n}`);
  const began = Date.now() - 3_600_000;
  for (const [n, value] of values.entries()) {
    const at = new Date(began + n * 1000).toISOString();
    const made = await manage('POST', '/flags/a/schedule', { at, patch: { value } });
    t.is(made.status, 201, made.text);
  }
  t.like((await manage('GET', '/flags/a')).body, { value: 'one', version: 1 });
  await Promise.all([platform().startWorker(), platform().startWorker()]);
  const pending = async () =>
    (await manage('GET', '/flags/a/schedule?limit=100')).body.schedules.filter(
      ({ status }: { status: string }) => status === 'pending',
    );
  await until(async () => (await pending()).length === 0);
  const { history } = (await manage('GET', '/flags/a/history?limit=100')).body;
  t.deepEqual(history.map(({ after }: { after: { value: string } }) => after.value).toReversed(), ['one', ...values]);
});

test.serial('versions of a project’s flags are kept up to a number of bytes, those of deleted flags too', async (t) => {
  const { manage, project } = await scene();
  const bytes = async (): Promise<{ kept: number; counted: number }> => {
    const [row] = await platform().db.query<{ kept: number; counted: number }>(
      `select (select coalesce(sum(octet_length(definition::text)), 0) from flag_history where project_id = $1)::float8
         as kept, history_bytes::float8 as counted from flag_sets where project_id = $1`,
      [project.id],
    );
    return row ?? { kept: -1, counted: -2 };
  };
  await manage('PATCH', '/flags/a', { value: 'two' });
  for (let n = 0; n < 6; n += 1) {
    const made = await manage('POST', '/flags', { key: `gone-${n}`, flag_type: 'string', value: 'x'.repeat(60_000) });
    t.is(made.status, 201, made.text.slice(0, 200));
    t.is((await manage('DELETE', `/flags/gone-${n}`)).status, 204);
  }
  const { kept, counted } = await bytes();
  t.true(kept <= 2 * flagBytes && kept > flagBytes, String(kept));
  t.is(counted, kept);
  t.is((await manage('GET', '/flags/a/history')).body.total, 1, 'the present version stays');
  t.is((await manage('POST', '/flags/a/revert', { version: 1 })).status, 404);
  // An import has the same bound.
  for (const value of ['b', 'c', 'd', 'e']) {
    const flags = [{ key: 'a', flag_type: 'string', value: value.repeat(80_000) }];
    t.is((await manage('PUT', '/flags/import', { flags })).status, 200);
  }
  t.true((await bytes()).kept <= 2 * flagBytes);
  await manage('POST', '/environments/production/copy', { to: 'staging' });
  await manage('DELETE', '/environments/staging');
  const after = await bytes();
  t.is(after.counted, after.kept, 'versions that go with their environment are not counted');
});
