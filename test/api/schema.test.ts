import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { worker: false });

// Made by knex, not by us.
const foreignTables = ['migrations', 'migrations_lock'];

test('every table of the control database has a primary key', async (t) => {
  const rows = await platform().db.query<{ name: string }>(
    `select c.relname as name from pg_class c
     where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace and not (c.relname = any ($1))
       and not exists (select from pg_constraint k where k.conrelid = c.oid and k.contype = 'p')`,
    [foreignTables],
  );
  t.deepEqual(rows, []);
});

test('every foreign key of the control database has an index that begins with its columns', async (t) => {
  const rows = await platform().db.query<{ key: string }>(
    `select k.conrelid::regclass || '.' || k.conname as key from pg_constraint k
     where k.contype = 'f' and not exists (
       select from pg_index i where i.indrelid = k.conrelid and i.indpred is null
         and (i.indkey::int2[])[0:cardinality(k.conkey) - 1] @> k.conkey
         and (i.indkey::int2[])[0:cardinality(k.conkey) - 1] <@ k.conkey)`,
  );
  t.deepEqual(rows, []);
});
