import test from 'ava';
import { isError } from '#test/support/is-error.ts';
import type { Answer } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type RestProject, createRestProject } from './rest-project.ts';

const platform = usePlatform(test);

let p: RestProject;

const patch = (body: Readonly<Record<string, unknown>>): Promise<Answer> =>
  platform().client.call('PATCH', `/projects/${p.project.id}`, { token: p.user.token, body });

const expose = async (...schemas: string[]): Promise<void> => {
  const { status, body } = await patch({ exposed_schemas: schemas });
  if (status !== 200) throw new Error(JSON.stringify(body));
};

const inShop = { headers: { 'accept-profile': 'shop', 'content-profile': 'shop' } };

test.before('a project with three schemas', async () => {
  p = await createRestProject(
    platform(),
    `create table orders (id int primary key, place text);
     insert into orders values (1, 'public');
     create schema shop;
     create type shop.state as enum ('new', 'paid');
     create table shop.customers (id int primary key, name text);
     create table shop.orders (id int primary key, place text, state shop.state default 'new',
       customer_id int references shop.customers);
     create table shop.closed (id int primary key);
     create table shop.tags (id int primary key);
     create table shop.order_tags (order_id int references shop.orders, tag_id int references shop.tags,
       primary key (order_id, tag_id));
     insert into shop.customers values (1, 'Ada');
     insert into shop.orders values (1, 'shop', 'new', 1);
     insert into shop.tags values (7);
     insert into shop.order_tags values (1, 7);
     grant select on shop.closed to anon;
     alter table shop.orders enable row level security;
     create policy everybody on shop.orders using (true) with check (true);
     create function shop.where_am_i() returns text language sql stable as 'select place from orders where id = 1';
     create function shop.with_state(state shop.state) returns text language sql stable as 'select state::text';
     create schema hidden;
     create table hidden.orders (id int primary key)`,
  );
});

test.serial('what a schema holds is served once the project exposes it, in place of public', async (t) => {
  t.is((await p.alias('GET', '/orders', inShop)).status, 406);
  const answer = await patch({ exposed_schemas: ['shop', 'public', 'shop'] });
  t.deepEqual([answer.status, answer.body.exposed_schemas], [200, ['shop']]);
  const read = await p.alias('GET', '/orders?select=place,state,customers(name),tags(id)', inShop);
  t.deepEqual(read.body, [{ place: 'shop', state: 'new', customers: { name: 'Ada' }, tags: [{ id: 7 }] }]);
  t.deepEqual((await p.alias('GET', '/orders?select=place')).body, [{ place: 'public' }]);
  t.deepEqual((await p.alias('GET', '/orders?state=eq.new&select=id', inShop)).body, [{ id: 1 }]);
  const hidden = await p.alias('GET', '/orders', { headers: { 'accept-profile': 'hidden' } });
  t.deepEqual([hidden.status, hidden.body.code], [406, 'PGRST106']);
  t.is(hidden.body.hint, 'Only the following schemas are exposed: public, shop');
  const unknown = await p.alias('GET', '/nothing', inShop);
  t.is(unknown.body.message, "Could not find the table 'shop.nothing' in the schema cache");
});

test.serial('writes, functions and batches go to the schema that is named', async (t) => {
  await expose('shop');
  const row = { id: 2, place: 'written', state: 'paid' };
  const headers = { ...inShop.headers, prefer: 'return=representation' };
  const made = await p.alias('POST', '/orders', { headers, body: row });
  t.deepEqual([made.status, made.body], [201, [{ ...row, customer_id: null }]]);
  t.is((await p.alias('PATCH', '/orders?id=eq.2', { headers, body: { place: 'again' } })).body[0].place, 'again');
  t.deepEqual(await p.sql('select id from public.orders order by id'), [{ id: 1 }]);
  t.is((await p.alias('DELETE', '/orders?id=eq.2', inShop)).status, 204);
  t.is((await p.alias('POST', '/rpc/where_am_i', { ...inShop, body: {} })).body, 'shop');
  t.is((await p.alias('GET', '/rpc/with_state?state=paid', inShop)).body, 'paid');
  const entries = [{ method: 'GET', path: 'orders?select=place' }];
  const batch = await p.alias('POST', '/rpc/$batch', { ...inShop, body: entries });
  t.deepEqual(batch.body[0].body, [{ place: 'shop' }]);
  // The next request without a header finds public again, on whatever connection.
  for (let n = 0; n < 4; n += 1)
    t.deepEqual((await p.alias('GET', '/orders?select=place')).body, [{ place: 'public' }]);
});

test.serial(
  'an exposed schema is closed to end users but for what policies guard, and closed again with it',
  async (t) => {
    const anon = (path: string) =>
      platform().client.call('GET', `/rest/v1${path}`, { key: p.project.publishableKey, ...inShop });
    await expose('shop');
    t.deepEqual((await anon('/orders?select=place')).body, [{ place: 'shop' }]);
    isError(t, await anon('/closed'), 403, '42501');
    await p.sql('create table shop.later (id int primary key); grant select on shop.later to anon');
    isError(t, await anon('/later'), 403, '42501');
    await p.sql('alter table shop.later enable row level security; create policy everybody on shop.later using (true)');
    t.deepEqual((await anon('/later')).body, []);
    await expose();
    t.is((await anon('/orders')).status, 406);
    const rights = `select has_schema_privilege('anon', 'shop', 'usage') as may`;
    t.deepEqual(await p.sql(rights), [{ may: false }]);
  },
);

test.serial('a schema that is exposed before it is there is served once it is made', async (t) => {
  await expose('to_come');
  const requested = { headers: { 'accept-profile': 'to_come' } };
  t.is((await p.alias('GET', '/things', requested)).body.code, 'PGRST205');
  await p.sql(`create schema to_come; create table to_come.things (id int primary key);
    alter table to_come.things enable row level security; create policy everybody on to_come.things using (true)`);
  t.deepEqual((await p.alias('GET', '/things', requested)).body, []);
  const open = await platform().client.call('GET', '/rest/v1/things', { key: p.project.publishableKey, ...requested });
  t.deepEqual(open.body, []);
});

test.serial('schemas of the platform and of the server cannot be exposed, nor by who may only look', async (t) => {
  for (const name of ['plinth', 'plinth_api', 'pg_catalog', 'information_schema', 'auth', '']) {
    isError(t, await patch({ exposed_schemas: [name] }), 400, 'validation_failed');
  }
  isError(t, await patch({ exposed_schemas: Array.from({ length: 21 }, (_, i) => `s${i}`) }), 400, 'validation_failed');
});

test.serial('statement time-outs are settings of the project, by who asks', async (t) => {
  await p.sql(`create function naps(seconds float) returns int language plpgsql as $$ begin perform pg_sleep(seconds); return 1; end $$;
    grant execute on function naps to anon`);
  const before = await platform().client.call('GET', `/projects/${p.project.id}`, { token: p.user.token });
  t.deepEqual(before.body.statement_timeouts, { anon: 3000, authenticated: 8000, secret: 30_000 });
  const changed = await patch({ statement_timeouts: { anon: 100, secret: 200 } });
  t.deepEqual(changed.body.statement_timeouts, { anon: 100, authenticated: 8000, secret: 200 });
  for (const ask of [p.anon, p.rest]) {
    const late = await ask('POST', '/rpc/naps', { body: { seconds: 60 } });
    t.deepEqual([late.status, late.body.code], [504, '57014']);
  }
  const table = await p.rest('GET', `/orders?id=eq.1`);
  t.is(table.status, 200);
  const back = await patch({ statement_timeouts: { anon: null, secret: null } });
  t.deepEqual(back.body.statement_timeouts, { anon: 3000, authenticated: 8000, secret: 30_000 });
  t.is((await p.rest('POST', '/rpc/naps', { body: { seconds: 0.3 } })).status, 200);
  for (const wrong of [{ anon: 99 }, { secret: 30_001 }, { anon: 1.5 }, { owner: 1000 }, { anon: '5s' }]) {
    isError(t, await patch({ statement_timeouts: wrong }), 400, 'validation_failed');
  }
});

test.serial('a stranger’s statement ends after three seconds where the project has set nothing', async (t) => {
  await p.sql(`create function naps_long() returns int language plpgsql as $$ begin perform pg_sleep(120); return 1; end $$;
    grant execute on function naps_long to anon`);
  await p.sql(`create function says() returns text language sql stable as $$ select current_setting('statement_timeout') $$;
    grant execute on function says to anon`);
  t.is((await p.anon('POST', '/rpc/says', { body: {} })).body, '3s');
  t.is((await p.rest('POST', '/rpc/says', { body: {} })).body, '30s');
  const late = await p.anon('POST', '/rpc/naps_long', { body: {} });
  t.deepEqual([late.status, late.body.code], [504, '57014']);
});
