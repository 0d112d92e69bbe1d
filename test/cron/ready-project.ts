import { systemActor } from '#domain/audit/actor.ts';
import { type TestProject, type TestUser, uniqueName } from '#test/support/client.ts';
import type { TestPlatform } from '#test/support/platform.ts';

/** A project that says that it is ready, without a worker that makes its database: for what needs none. */
export const readyProject = async (
  { client, db }: TestPlatform,
  owner: TestUser,
  plan: string,
): Promise<TestProject> => {
  const slug = uniqueName('cron');
  const headers = { prefer: 'respond-async' };
  const made = await client.call('POST', '/projects', {
    token: owner.token,
    body: { name: slug, slug, plan },
    headers,
  });
  const id = /^\/projects\/([^/]+)\//.exec(made.headers.get('location') ?? '')?.[1];
  if (id === undefined) throw new Error(made.text);
  const [row] = await db.transaction(
    (tx) =>
      tx.query<{ ref: string; org_id: string; db_name: string }>(
        `update projects set status = 'active' where id = $1 returning ref, org_id, db_name`,
        [id],
      ),
    systemActor,
  );
  if (row === undefined) throw new Error('there is no such project');
  return { id, ref: row.ref, slug, orgId: row.org_id, dbName: row.db_name, key: '', publishableKey: '' };
};
