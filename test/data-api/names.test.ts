import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type RestProject, createRestProject } from './rest-project.ts';

const platform = usePlatform(test);

let p: RestProject;

const names: readonly string[] = [
  ...`select order limit offset columns on_conflict and or not in is eq null table user group end count sum`.split(' '),
  ...`rpc constructor toString and.or a->b a->>b a,b a(b) a:b a!b a.b * ...a % %20 + $1 ? & = # " \\\\`.split(' '),
  ...`名前 имя ⅷ 😀🏳️‍🌈 שם e\u0301 a\u200bb ${'x'.repeat(63)}`.split(' '),
  'ä ö',
  ' ',
  '  x  ',
  'a\nb',
  "'; drop table kept; --",
];

const sqlName = (name: string): string => `"${name.replaceAll('"', '""')}"`;
const quoted = (name: string): string => encodeURIComponent(`"${name.replaceAll(/["\\]/g, String.raw`\$&`)}"`);

const createSql = (name: string): string =>
  `create table ${sqlName(name)} (id int primary key, ${sqlName(name)} text unique);`;

test.before('a project with tables', async () => {
  p = await createRestProject(platform(), 'create table kept (id int primary key)');
  await asAdmin(p.project.dbName, (admin) => admin.query('update plinth.limits set max_tables = null'));
  await p.sql(names.map(createSql).join('\n'));
});

for (const name of names)
  test(`a table and a column may be called ${JSON.stringify(name)}`, async (t) => {
    const path = `/${encodeURIComponent(name)}`;
    const column = quoted(name);
    const two = [
      { id: 1, [name]: 'one' },
      { id: 2, [name]: 'two' },
    ];
    const made = await p.rest('POST', path, { body: two });
    t.deepEqual([made.status, made.body], [201, two], made.text);
    const merged = await p.rest('POST', `${path}?on_conflict=${column}&columns=id,${column}`, {
      body: two[0],
      headers: { prefer: 'resolution=merge-duplicates' },
    });
    t.is(merged.status, 200, merged.text);
    const read = await p.rest('GET', `${path}?select=${column}&${column}=in.(one,two)&order=${column}.desc`);
    t.deepEqual(read.body, [{ [name]: 'two' }, { [name]: 'one' }], read.text);
    const either = await p.rest('GET', `${path}?select=x:${column}&or=(${column}.eq.one,id.eq.9)`);
    t.deepEqual(either.body, [{ x: 'one' }], either.text);
    t.is((await p.rest('PATCH', `${path}?${column}=eq.one`, { body: { [name]: 'new' } })).status, 204);
    t.is((await p.rest('DELETE', `${path}?${column}=eq.new`)).status, 204);
    t.deepEqual((await p.rest('GET', path)).body, two.slice(1));
  });
