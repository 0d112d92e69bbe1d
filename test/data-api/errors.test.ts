import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type RestProject, createRestProject } from './rest-project.ts';

const platform = usePlatform(test);

let p: RestProject;

test.before('a project with a table', async () => {
  p = await createRestProject(
    platform(),
    `create table things (id int primary key, name text, data jsonb, tags text[]);
     create table full_up (id int);
     create table forms (id int primary key);
     create function fails(state text) returns void language plpgsql as $$ begin raise exception using errcode = state, message = 'raised'; end $$`,
  );
});

const errorOf = (body: Record<string, unknown>): unknown => Object.keys(body).toSorted();

test('an error has code, message, details, hint and the id of the request', async (t) => {
  const { body, headers } = await p.rest('GET', '/nothing', { headers: { 'x-request-id': 'mine-1' } });
  t.deepEqual(errorOf(body), ['code', 'details', 'hint', 'message', 'request_id']);
  t.is(body.request_id, 'mine-1');
  t.is(headers.get('content-type'), 'application/json; charset=utf-8');
});

for (const [state, status] of [
  ['23505', 409],
  ['23503', 409],
  ['23514', 400],
  ['22012', 400],
  ['42501', 403],
  ['28000', 403],
  ['P0001', 400],
  ['P0002', 500],
  ['40001', 500],
  ['53300', 503],
  ['54001', 500],
  ['57014', 504],
  ['PT404', 404],
  ['PT599', 599],
] as const) {
  test(`SQLSTATE ${state} is ${status}`, async (t) => {
    const answer = await p.rest('POST', '/rpc/fails', { body: { state } });
    t.deepEqual([answer.status, answer.body.code, answer.body.message], [status, state, 'raised']);
  });
}

for (const path of [
  '/things?id=',
  '/things?=eq.1',
  '/things?id=eq',
  '/things?id=eq.x',
  '/things?id=eq.%00',
  '/things?name=eq.%00',
  '/things?id=in.(1,,)',
  '/things?id=in.(1',
  '/things?select=id)',
  '/things?select=id,,name',
  '/things?select=id::regclass',
  '/things?select=nope(id)',
  '/things?select=*,things(*)',
  '/things?order=nope',
  '/things?order=id.sideways',
  '/things?limit=9999999999999999999',
  '/things?offset=9999999999999999999',
  '/things?limit=1.5',
  '/things?or=(',
  '/things?or=()',
  '/things?and=(or(and(',
  '/things?data->>a=eq.1',
  '/things?data->a->b->>c=is.null',
  '/things?data-%3E=eq.1',
  '/things?name=fts(nolanguage).x',
  '/things?name=match.(',
  '/things?tags=cs.{',
  '/things?id=eq(any).{1',
  '/things?%22=eq.1',
  '/things?columns=id',
  '/things?on_conflict=nope',
  '/%00',
  '/%FF',
  '/things/1/2/3',
  '/rpc/',
  '/rpc/%00?a=1',
]) {
  test(`GET ${path} is no fault of the server`, async (t) => {
    const { status, body } = await p.rest('GET', path);
    t.true(status < 500, `${status} ${JSON.stringify(body)}`);
    if (status >= 400) t.is(typeof body.code, 'string');
  });
}

for (const [path, raw] of [
  ['/things', '{"id":1e400}'],
  ['/things', '{"id":1.5}'],
  ['/things', '{"id":{"a":1}}'],
  ['/things', String.raw`{"name":"\ud800"}`],
  ['/things', String.raw`{"name\u0000":1}`],
  ['/things', '{"__proto__":1}'],
  ['/things', '{"constructor":1}'],
  ['/things', `{"${'x'.repeat(5000)}":1}`],
  ['/things', '\uFEFF{"id":1}'],
  ['/things?columns=', '{"id":1}'],
  ['/things?columns=id,id', '{"id":-7}'],
  ['/things?columns=(', '{"id":1}'],
  ['/things?select=(', '{"id":1}'],
  ['/rpc/fails', '{"state":"bad"}'],
  ['/rpc/$batch', '[[[['],
] as const) {
  test(`POST ${path} of ${raw.slice(0, 40)} is no fault of the server`, async (t) => {
    const { status, body } = await p.rest('POST', path, { raw });
    t.true(status < 500, `${status} ${JSON.stringify(body)}`);
  });
}

test('a body that is not UTF-8 is 400', async (t) => {
  const { status, body } = await p.rest('POST', '/things', { raw: Buffer.from([0x7b, 0xff, 0x7d]) });
  t.deepEqual([status, body.code], [400, 'PGRST102']);
});

test('a body over the limit is 413', async (t) => {
  const { status, body } = await p.rest('POST', '/things', { raw: JSON.stringify({ name: 'x'.repeat(1_100_000) }) });
  t.deepEqual([status, body.code], [413, 'payload_too_large']);
});

test('a method that is not there is 405', async (t) => {
  t.is((await p.rest('PUT', '/')).status, 405);
  t.is((await p.rest('PATCH', '/rpc/fails')).status, 405);
});

test('a plan limit is 403 and names itself', async (t) => {
  await asAdmin(p.project.dbName, (admin) => admin.query('update plinth.limits set max_rows = 2'));
  const { status, body } = await p.rest('POST', '/full_up', { body: [{ id: 1 }, { id: 2 }, { id: 3 }] });
  t.deepEqual([status, body.code], [403, 'plan_limit_exceeded'], body.message);
  t.notRegex(body.message, /^plan_limit_exceeded/);
});

test('names of the language’s own objects are no columns', async (t) => {
  for (const name of ['__proto__', 'constructor', 'toString']) {
    const { status, body } = await p.rest('GET', `/forms?${name}=eq.1`);
    t.deepEqual([status, body.code], [400, '42703'], name);
  }
});
