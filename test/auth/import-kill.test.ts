import test from 'ava';
import { createAuthDb } from '#domain/end-users/auth-db.ts';
import { importUsers } from '#domain/end-users/imports.ts';
import { findProject } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';
import { usePlatform } from '#test/support/platform.ts';

// The runs of the job are made by the test: each ends where a worker could be killed.
const platform = usePlatform(test, { worker: false });

const users = Array.from({ length: 600 }, (_, index) => ({ email: `u${index}@example.com` }));

/** An import of 600 users in three parts that waits. */
const scene = async () => {
  const { client, db, config } = platform();
  const developer = await client.signUp();
  const stopWorker = await platform().startWorker();
  const { id } = await client.createProject(developer, { plan: 'enterprise' });
  await stopWorker();
  const { body } = await client.call('POST', `/projects/${id}/users/import`, {
    token: developer.token,
    body: { users },
    headers: { prefer: 'respond-async' },
  });
  const project = await findProject(db, id);
  if (project === undefined) throw new Error('there is no project');
  const use = async (_id: string, role: 'auth' | 'users', work: Parameters<typeof asTenant>[1]) =>
    asTenant(await tenantLogin(platform(), id, role), work);
  const sealer = () => openKeyRing(config.PLINTH_SECRET_KEYS).sealerFor(id, project.data_key);
  const deps = { authDb: createAuthDb({ use } as never), sealer, markDirty: () => undefined };
  const controller = new AbortController();
  const run = (more: { readonly db?: Queryable; readonly progress?: () => void } = {}) =>
    importUsers(
      { deps, db, project, jobId: body.job_id, signal: controller.signal, progress: () => undefined, ...more },
      { total: users.length, failed: 0, faults: [] },
    );
  return { run, controller, db };
};

test.serial('an import that is killed after a part goes on with the next', async (t) => {
  const { run } = await scene();
  const killed = new Error('killed');
  const kill = (): never => {
    throw killed;
  };
  t.is(await t.throwsAsync(run({ progress: kill })), killed);
  t.deepEqual(await run(), { imported: 600, skipped: 0, failed: 0, errors: [] });
});

test.serial('an import that is killed between a part and the note that it is done counts nobody twice', async (t) => {
  const { run, db } = await scene();
  const killed = new Error('killed');
  const query: Queryable['query'] = (sql, ...rest) =>
    sql.startsWith('delete from user_import_parts') ? Promise.reject(killed) : db.query(sql, ...rest);
  t.is(await t.throwsAsync(run({ db: { ...db, query } })), killed);
  t.is(await t.throwsAsync(run({ db: { ...db, query } })), killed);
  t.deepEqual(await run(), { imported: 600, skipped: 0, failed: 0, errors: [] });
  t.deepEqual(await run(), { imported: 600, skipped: 0, failed: 0, errors: [] });
});

test.serial('an import that is cancelled stops before the next part', async (t) => {
  const { run, controller } = await scene();
  await t.throwsAsync(run({ progress: () => controller.abort() }), { name: 'AbortError' });
});
