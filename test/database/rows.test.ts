import test from 'ava';
import type { Answer } from '#test/support/client.ts';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type DatabaseScene, openScene } from './scene.ts';

const platform = usePlatform(test, { shared: true });

let scene: DatabaseScene;

test.before('there is a table of 120 rows', async () => {
  scene = await openScene(platform());
  await scene.run('create table numbers (id int primary key, "a,b" text, n bigint, m numeric)');
  await scene.run(
    `insert into numbers select i, 'x' || i % 2, 9007199254740993 + i, i / 8.0 from generate_series(120, 1, -1) i`,
  );
});

const rows = (path: string, as = scene.viewer): Promise<Answer> => scene.call('GET', path, undefined, as);
const idsOf = ({ body }: Answer): number[] => body.map(({ id }: { id: number }) => id);

test.serial(
  'rows come 50 at a time in the order of the primary key, and a header says how many there are',
  async (t) => {
    const first = await rows('/numbers/rows');
    t.is(first.status, 200);
    t.is(first.headers.get('x-total-count'), '120');
    t.deepEqual(
      idsOf(first),
      Array.from({ length: 50 }, (_, index) => index + 1),
    );
    const last = await rows('/numbers/rows?offset=118&limit=1000');
    t.deepEqual(idsOf(last), [119, 120]);
    t.is(last.headers.get('x-total-count'), '120');
    const beyond = await rows('/numbers/rows?offset=500');
    t.deepEqual(beyond.body, []);
    t.is(beyond.headers.get('x-total-count-kind'), 'estimated');
  },
);

test.serial('rows are counted as asked: not at all, exactly, or by estimate', async (t) => {
  const none = await rows('/numbers/rows?count=none&limit=1000');
  t.is(none.headers.get('x-total-count'), null);
  const exact = await rows('/numbers/rows?count=exact&offset=60&limit=2');
  t.is(exact.headers.get('x-total-count'), '120');
  t.is(exact.headers.get('x-total-count-kind'), 'exact');
  await scene.run('analyze numbers');
  const estimated = await rows('/numbers/rows?count=estimated&limit=2');
  t.is(estimated.headers.get('x-total-count'), '120');
  t.is(estimated.headers.get('x-total-count-kind'), 'estimated');
  t.is((await rows('/numbers/rows?limit=2')).headers.get('x-total-count-kind'), 'exact');
  t.is((await rows('/numbers/rows?count=all')).status, 400);
});

test.serial('values are exact', async (t) => {
  t.is(
    (await rows('/numbers/rows?limit=1')).text,
    '[{"id":1,"a,b":"x1","n":9007199254740994,"m":0.12500000000000000000}]',
  );
});

test.serial('rows are ordered as asked', async (t) => {
  t.deepEqual(idsOf(await rows('/numbers/rows?order=id.desc&limit=2')), [120, 119]);
  t.deepEqual(idsOf(await rows(`/numbers/rows?order=${encodeURIComponent('"a,b".desc,id')}&limit=2`)), [1, 3]);
});

for (const [query, path] of [
  ['limit=0', 'limit'],
  ['limit=1001', 'limit'],
  ['limit=1e1', 'limit'],
  ['offset=-1', 'offset'],
  ['offset=99999999999999999999', 'offset'],
  ['order=', 'order'],
  ['order=nope', 'order'],
  ['order=id.up', 'order'],
  ['order=id,,n', 'order'],
  ['order=%22id', 'order'],
  ['order=id;drop%20table%20numbers', 'order'],
  ['order=id&order=n', 'order'],
] as const) {
  test.serial(`rows?${query} is refused`, async (t) => {
    const answer = await rows(`/numbers/rows?${query}`);
    isError(t, answer, 400, 'validation_failed');
    t.is(answer.body.details[0].path, path);
  });
}

test.serial('rows that row-level security hides from users are shown to members', async (t) => {
  await scene.run('create table hidden as select 1 as n');
  await scene.run('alter table hidden enable row level security');
  await scene.run('alter table hidden force row level security');
  t.deepEqual((await rows('/hidden/rows')).body, [{ n: 1 }]);
});

test.serial('a view has rows, and what it calls can change nothing', async (t) => {
  await scene.run('create view doubled as select id, n * 2 as n from numbers order by id');
  t.is((await rows('/doubled/rows?limit=1')).text, '[{"id":1,"n":18014398509481988}]');
  await scene.run(
    `create function sneak() returns int language plpgsql as $$ begin insert into numbers (id) values (0); return 1; end $$`,
  );
  await scene.run('create view sneaky as select sneak() as n');
  isError(t, await rows('/sneaky/rows'), 400, '25006');
  t.is((await rows('/numbers/rows?limit=1')).body[0].id, 1);
});

test.serial('rows of more than 16 MB are refused, and fewer come', async (t) => {
  await scene.run(`create table wide as select repeat(md5(i::text), 65536) as w from generate_series(1, 12) i`);
  isError(t, await rows('/wide/rows'), 413, 'payload_too_large');
  t.is((await rows('/wide/rows?limit=2')).body.length, 2);
});
