import test from 'ava';
import { inFence } from '#domain/database/fence.ts';
import { type Platform, openPlatform } from '#domain/platform.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { type DatabaseScene, openScene } from './scene.ts';

const platform = usePlatform(test);

let scene: DatabaseScene;
let opened: Platform;

test.before('there is a project', async () => {
  scene = await openScene(platform());
  opened = await openPlatform(platform().config, memoryLog().log);
});

test.after.always(() => opened.close());

const stubborn = `set statement_timeout = 0; do $$ begin
  for i in 1 .. 1000 loop
    begin perform pg_sleep(3612); exception when query_canceled then null; end;
  end loop;
end $$`;

const never = new AbortController().signal;
const fenceOf = (timeoutMs: number) =>
  ({ projectId: scene.project.id, role: 'owner', timeoutMs, signal: never }) as const;

test('what lifts its own time-out and catches its cancellation is ended from outside', async (t) => {
  const work = opened.projects.tenantDb;
  const ended = inFence(work, fenceOf(10), async (client, stoppedBy) => {
    await client.query(stubborn).catch(() => undefined);
    return stoppedBy();
  });
  t.is(await ended, 'watchdog');
});

test('a session is closed after its work, also when the work fails in an orderly way', async (t) => {
  const { tenantDb } = opened.projects;
  const pid = 'select pg_backend_pid() as pid';
  const first = await inFence(
    tenantDb,
    fenceOf(1000),
    async (client) => (await client.query<{ pid: number }>(pid)).rows,
  );
  await t.throwsAsync(
    inFence(tenantDb, fenceOf(1000), (client) => client.query('select 1/0')),
    { message: /zero/ },
  );
  const second = await inFence(
    tenantDb,
    fenceOf(1000),
    async (client) => (await client.query<{ pid: number }>(pid)).rows,
  );
  t.not(first[0]?.pid, second[0]?.pid);
});

test('a statement that takes too long is 504', async (t) => {
  const answer = await scene.query(
    `do $$ begin raise 'canceling statement due to statement timeout' using errcode = '57014'; end $$`,
  );
  t.is(answer.status, 504);
  t.is(answer.body.code, '57014');
});
