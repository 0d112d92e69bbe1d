import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { newId } from '#lib/ids.ts';
import { uniqueName } from '#test/support/client.ts';
import { createOrganization, insertMember, roleOf } from '#test/support/organization.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { worker: false });

const noActor = { code: 'PL001', message: /needs an actor/ };

test.serial('the database refuses a change of an audited table without an actor', async (t) => {
  const { db } = platform();
  const org = await createOrganization(platform());
  const { id, userId } = await insertMember(platform(), org.id, 'viewer');
  const changes = [
    [`update organizations set name = 'Changed' where id = $1`, [org.id]],
    [`delete from organizations where id = $1`, [org.id]],
    [`insert into organizations (id, name) values ('a123456789012345', $1)`, ['New']],
    [`update members set role = 'owner' where id = $1`, [id]],
    [`delete from members where id = $1`, [id]],
    [
      `insert into members (id, org_id, email, role, status) values ($1, $2, 'x@example.com', 'owner', 'pending')`,
      [newId(), org.id],
    ],
    [`delete from users where id = $1`, [userId]],
  ] as const;
  for (const [sql, values] of changes) {
    await t.throwsAsync(db.query(sql, values), noActor, sql);
    await t.throwsAsync(
      db.transaction((tx) => tx.query(sql, values)),
      noActor,
      sql,
    );
  }
  t.is(await roleOf(platform(), id), 'viewer');
});

test.serial('every table of what an organization owns is audited', async (t) => {
  const rows = await platform().db.query<{ table: string }>(
    `select c.relname as table from pg_trigger g join pg_class c on c.oid = g.tgrelid
     join pg_proc p on p.oid = g.tgfoid where p.proname = 'audit_change' and g.tgenabled = 'O' order by 1`,
  );
  const audited = new Set(rows.map((row) => row.table));
  for (const table of ['api_keys', 'functions', 'members', 'organizations', 'projects']) t.true(audited.has(table));
});

test.serial('an actor is good for one transaction only', async (t) => {
  const { db } = platform();
  const org = await createOrganization(platform());
  const rename = `update organizations set name = name || '!' where id = $1`;
  // One connection after the other, so that all of the pool have had an actor.
  await Promise.all(Array.from({ length: 8 }, () => db.transaction((tx) => tx.query(rename, [org.id]), systemActor)));
  await Promise.all(Array.from({ length: 8 }, () => t.throwsAsync(db.query(rename, [org.id]), noActor)));
});

test.serial('a change whose audit entry cannot be written is not made, and the fault is not told', async (t) => {
  const { db, client } = platform();
  const org = await createOrganization(platform());
  const target = await insertMember(platform(), org.id, 'viewer');
  const invited = await insertMember(platform(), org.id, 'viewer', 'pending');
  await db.query(`create function break_audit() returns trigger language plpgsql as
    $$ begin raise exception 'the audit disk of host sirius is full'; end $$`);
  await db.query('create trigger broken before insert on audit_entries for each row execute function break_audit()');
  const tables = [
    'users',
    'organizations',
    'members',
    'sign_ins',
    'platform_mail',
    'idempotency_keys',
    'audit_entries',
  ];
  const everything = () => Promise.all(tables.map((table) => db.query(`select * from ${table} order by 1`)));
  const before = await everything();
  const email = `${uniqueName('user')}@example.com`;
  const headers = { 'idempotency-key': uniqueName('key') };
  const calls = [
    () => client.call('POST', '/auth/signup', { body: { email, password: 'correct horse battery' } }),
    () => org.as('owner', 'POST', '/team/orgs', { headers, body: { org_name: 'Acme' } }),
    () => org.as('owner', 'PATCH', '/team/orgs/current', { body: { org_name: 'Changed' } }),
    () => org.as('owner', 'POST', '/team/invite', { headers, body: { email, role: 'viewer' } }),
    () => org.as('owner', 'PATCH', `/team/members/${target.id}/role`, { body: { role: 'admin' } }),
    () => org.as('owner', 'DELETE', `/team/members/${target.id}`),
    () => org.as('owner', 'POST', `/team/members/${invited.id}/resend`),
  ];
  for (const call of calls) {
    const answer = await call();
    t.is(answer.status, 500);
    t.is(answer.body.code, 'internal');
    t.notRegex(answer.text, /audit|sirius|trigger|insert/i);
  }
  t.deepEqual(await everything(), before);
  await db.query('drop trigger broken on audit_entries');
  t.is((await org.as('owner', 'DELETE', `/team/members/${target.id}`)).status, 204);
});
