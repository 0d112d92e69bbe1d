import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { createRestProject } from '../data-api/rest-project.ts';

const platform = usePlatform(test);

const schema = `
  create schema shop;
  create type mood as enum ('sad', 'ok "fine"');
  create table people (id bigint generated always as identity primary key, name text not null default 'x', mood mood);
  create table shop.orders (
    a int, b int, person bigint references people on delete cascade, total numeric check (total > 0), primary key (b, a));
  create index by_total on shop.orders (total) where total > 10;
  alter table people enable row level security;
  create policy "own <b>" on people for select to authenticated using (id > 0);
  create view tall with (security_invoker) as select name from people;
  comment on column people.name is 'é';
  create function add(x int, y int default 2) returns int language sql immutable as 'select x + y';
  create function noted() returns trigger language plpgsql as 'begin return new; end';
  create trigger noting before insert on people for each row execute function noted();
`;

interface SchemaTable {
  readonly schema: string;
  readonly name: string;
  readonly [field: string]: unknown;
}

test('one call shows all of a schema, and is 304 until something changes', async (t) => {
  const { client } = platform();
  const { project, user, sql } = await createRestProject(platform(), schema);
  const path = `/projects/${project.id}/db/schema`;
  const answer = await client.call('GET', path, { token: user.token });
  t.is(answer.status, 200, answer.text);
  const { schemas, tables, enums, functions } = answer.body as {
    schemas: string[];
    tables: SchemaTable[];
    enums: unknown[];
    functions: { name: string }[];
  };
  t.true(schemas.includes('shop') && !schemas.some((name) => /^(pg_|plinth)/.test(name)));
  const named = (name: string): Record<string, unknown> => tables.find((table) => table.name === name) ?? {};
  t.like(named('people'), {
    schema: 'public',
    kind: 'table',
    primary_key: ['id'],
    rls: { enabled: true, forced: false },
    policies: [
      {
        name: 'own <b>',
        permissive: true,
        command: 'SELECT',
        roles: ['authenticated'],
        using: '(id > 0)',
        check: null,
      },
    ],
  });
  t.like((named('people')['columns'] as object[])[0], { name: 'id', type: 'bigint', generated: 'always' });
  t.deepEqual((named('people')['columns'] as object[])[2], {
    name: 'mood',
    type: 'mood',
    nullable: true,
    default: null,
    generated: null,
    enum_values: ['sad', 'ok "fine"'],
    comment: null,
  });
  t.deepEqual(
    (named('people')['triggers'] as { name: string }[]).map(({ name }) => name),
    ['noting'],
  );
  t.deepEqual(named('orders')['primary_key'], ['b', 'a']);
  t.like(named('orders'), {
    schema: 'shop',
    foreign_keys: [
      {
        name: 'orders_person_fkey',
        columns: ['person'],
        references: { schema: 'public', table: 'people', columns: ['id'] },
        on_update: 'NO ACTION',
        on_delete: 'CASCADE',
      },
    ],
    checks: [{ name: 'orders_total_check', expression: '(total > (0)::numeric)' }],
  });
  t.like((named('orders')['indexes'] as object[])[0], { name: 'by_total', unique: false, scans: 0 });
  t.is(named('tall')['kind'], 'view');
  t.deepEqual(enums, [{ schema: 'public', name: 'mood', values: ['sad', 'ok "fine"'] }]);
  t.like(
    functions.find(({ name }) => name === 'add'),
    { schema: 'public', arguments: 'x integer, y integer DEFAULT 2', returns: 'integer', volatility: 'immutable' },
  );

  const etag = answer.headers.get('etag') ?? '';
  const same = await client.call('GET', path, { token: user.token, headers: { 'if-none-match': etag } });
  t.deepEqual([same.status, same.text], [304, '']);
  await sql('alter table people add column age int');
  const changed = await client.call('GET', path, { token: user.token, headers: { 'if-none-match': etag } });
  t.is(changed.status, 200);
  t.not(changed.headers.get('etag'), etag);
});

test('somebody who is no member learns nothing of a schema', async (t) => {
  const { client } = platform();
  const { project } = await createRestProject(platform(), '');
  const stranger = await client.signUp();
  t.is((await client.call('GET', `/projects/${project.id}/db/schema`, { token: stranger.token })).status, 404);
});
