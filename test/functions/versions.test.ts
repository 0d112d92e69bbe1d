import test from 'ava';
import { maxListedCode, maxVersions } from '#domain/functions/store.ts';
import { useJobsApi } from '#test/jobs/scene.ts';

const { scene, platform } = useJobsApi(test);

const returns = (value: unknown): string => `exports.handler = () => (${JSON.stringify(value)})`;

test('the list holds replaced versions only, newest first, each with who made it and when', async (t) => {
  const { fn, ask, user } = await scene(returns(1));
  const path = `/functions/${fn.id}`;
  t.deepEqual((await ask('GET', `${path}/versions`)).body, { versions: [], total: 0 });
  const first = (await ask('GET', path)).body;
  await ask('PATCH', path, { body: { code: returns(2) } });
  await ask('PATCH', path, { body: { code: 'exports.main = () => 3', entry_point: 'main' } });
  const { status, body } = await ask('GET', `${path}/versions`);
  t.is(status, 200);
  t.is(body.total, 2);
  t.deepEqual(
    body.versions.map(({ version, code, entry_point, created_by }: Record<string, unknown>) => [
      version,
      code,
      entry_point,
      created_by,
    ]),
    [
      [2, returns(2), 'handler', user.id],
      [1, returns(1), 'handler', user.id],
    ],
  );
  t.deepEqual(Object.keys(body.versions[0]).toSorted(), [
    'code',
    'created_at',
    'created_by',
    'entry_point',
    'entrypoint',
    'files',
    'version',
  ]);
  t.is(body.versions[1].created_at, first.created_at);
  const page = await ask('GET', `${path}/versions?limit=1&offset=1`);
  t.is(page.body.versions.length, 1);
  t.is(page.body.versions[0].version, 1);
});

test('each change of what a run depends on saves one, and a rename saves none', async (t) => {
  const { fn, ask } = await scene(returns(1));
  const path = `/functions/${fn.id}`;
  const changes = [
    { code: returns(2) },
    { entry_point: 'handler' },
    { timeout_ms: 5000 },
    { memory_mb: 128 },
    { env_vars: { A: '1' } },
  ];
  for (const [i, body] of changes.entries()) {
    t.is((await ask('PATCH', path, { body })).body.version, i + 2, JSON.stringify(body));
  }
  await ask('PATCH', path, { body: { name: 'renamed' } });
  const { body } = await ask('GET', `${path}/versions`);
  t.deepEqual(
    body.versions.map(({ version }: { version: number }) => version),
    [5, 4, 3, 2, 1],
  );
});

test(`the newest ${maxVersions} replaced versions are kept`, async (t) => {
  const { fn, ask } = await scene(returns(1));
  await platform().db.query(
    `insert into function_versions (function_id, version, entry_point, code, compiled, timeout_ms, memory_mb, created_at)
     select $1, n, 'handler', 'x', 'x', 1000, 128, now() from generate_series(1, 120) n`,
    [fn.id],
  );
  await platform().db.transaction(
    async (tx) => {
      await tx.query('update functions set version = 121 where id = $1', [fn.id]);
    },
    { 'plinth.actor': '{"type":"system"}' },
  );
  await ask('PATCH', `/functions/${fn.id}`, { body: { code: returns(2) } });
  const { body } = await ask('GET', `/functions/${fn.id}/versions?limit=200`);
  t.is(body.total, maxVersions);
  t.is(body.versions[0].version, 121);
  t.is(body.versions.at(-1).version, 122 - maxVersions);
});

test('a page of versions carries a bounded amount of code', async (t) => {
  const { fn, ask } = await scene(returns(1));
  await platform().db.query(
    `insert into function_versions (function_id, version, entry_point, code, compiled, timeout_ms, memory_mb, created_at)
     select $1, n, 'handler', repeat('x', 1048576), 'x', 1000, 128, now() from generate_series(1, 20) n`,
    [fn.id],
  );
  const { body } = await ask('GET', `/functions/${fn.id}/versions?limit=200`);
  const codes = body.versions.map(({ code }: { code: string | null }) => code?.length ?? 0);
  t.is(
    codes.reduce((sum: number, length: number) => sum + length, 0),
    maxListedCode,
  );
  t.is(codes[0], 1_048_576);
  t.is(codes[19], 0);
  const alone = await ask('GET', `/functions/${fn.id}/versions?limit=1&offset=19`);
  t.is(alone.body.versions[0].code.length, 1_048_576);
});

test('versions of a function of another project are not there', async (t) => {
  const { fn } = await scene(returns(1));
  const other = await scene(returns(1));
  t.is((await other.ask('GET', `/functions/${fn.id}/versions`)).status, 404);
});
