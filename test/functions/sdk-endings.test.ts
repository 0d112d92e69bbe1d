import test from 'ava';
import { type ProjectScene, useJobsApi } from '#test/jobs/scene.ts';
import { asAdmin } from '#test/support/databases.ts';
import { until } from '#test/support/until.ts';

const { scene } = useJobsApi(test);

const asleep = ({ project }: ProjectScene): Promise<number> =>
  asAdmin('postgres', async (admin) => {
    const sql = `select from pg_stat_activity where datname = $1 and state = 'active' and query = 'select pg_sleep(3811)'`;
    return (await admin.query(sql, [project.dbName])).rows.length;
  });

const hoarder = `exports.handler = async (_, { db }) => {
  for (let n = 0; n < 12; n += 1) {
    db.transaction(async (tx) => {
      await tx.query('set statement_timeout = 0');
      tx.query('select pg_sleep(3811)').catch(() => {});
    }).catch(() => {});
  }
  await new Promise(() => {});
}`;

test('statements that nobody waits for, in transactions that are over, do not outlive their run', async (t) => {
  const one = await scene(hoarder);
  for (let round = 0; round < 2; round += 1) {
    const id = await one.begin();
    await until(async () => (await asleep(one)) === 4);
    await one.ask('POST', `/jobs/${id}/cancel`);
    await one.jobWhen(id, 'cancelled');
    await until(async () => (await asleep(one)) === 0);
  }
  t.pass();
});
