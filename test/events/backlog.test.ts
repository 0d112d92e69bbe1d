import test from 'ava';
import { setTableSubscriptions } from '#domain/events/subscriptions.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { withServers } from '../database/limits-scene.ts';

const platform = usePlatform(test);

test('who writes while a project’s outbox is full is told when to come back, over the data API and in the console', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const query = (sql: string) =>
    client.call('POST', `/projects/${project.id}/db/query`, { token: user.token, body: { sql } });
  t.is((await query('create table t (x int)')).status, 200);
  await withServers(platform(), (servers) =>
    setTableSubscriptions({ db, servers }, project.id, [{ table: 't', op: null }]),
  );
  await asAdmin(project.dbName, (admin) => admin.query('update plinth.outbox_limits set max_rows = 0'));
  for (const answer of [
    await client.call('POST', '/v1/rest/t', { key: project.key, body: { x: 1 } }),
    await query('insert into t values (1)'),
  ]) {
    t.is(answer.status, 503);
    t.is(answer.body.code, 'event_backlog_full');
    t.regex(answer.headers.get('retry-after') ?? '', /^\d+$/);
  }
});
