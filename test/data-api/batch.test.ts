import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { type RestProject, createRestProject } from './rest-project.ts';

const platform = usePlatform(test);

let p: RestProject;

test.before('a project with tables', async () => {
  p = await createRestProject(
    platform(),
    `create table accounts (name text primary key, cents bigint not null check (cents >= 0));
     create function pay(payer text, payee text, cents bigint) returns void language sql as
       'update accounts a set cents = a.cents - pay.cents where name = payer; update accounts a set cents = a.cents + pay.cents where name = payee'`,
  );
});

const batch = (body: unknown, headers: Record<string, string> = {}) => p.rest('POST', '/rpc/$batch', { body, headers });

test('requests of a batch happen one after the other, each with an answer of its own', async (t) => {
  const { status, body } = await batch([
    {
      method: 'POST',
      path: '/accounts',
      body: [
        { name: 'a1', cents: 5 },
        { name: 'a2', cents: 0 },
      ],
    },
    { method: 'post', path: 'rpc/pay', body: { payer: 'a1', payee: 'a2', cents: 2 } },
    {
      method: 'PATCH',
      path: '/accounts?name=eq.a1',
      body: { cents: 100 },
      headers: { Prefer: 'return=representation' },
    },
    { method: 'GET', path: '/accounts?name=in.(a1,a2)&order=name&select=cents' },
    { method: 'DELETE', path: '/accounts?name=eq.a1' },
    { method: 'GET', path: '/accounts?name=eq.a2', headers: { accept: 'application/vnd.pgrst.object+json' } },
    { method: 'GET', path: '/accounts?name=eq.a2&select=name', headers: { accept: 'text/csv' } },
  ]);
  t.is(status, 200);
  t.deepEqual(
    body.map((answer: { status: number }) => answer.status),
    [201, 204, 200, 200, 204, 200, 200],
  );
  t.deepEqual(body[3].body, [{ cents: 100 }, { cents: 2 }]);
  t.deepEqual(body[5].body, { name: 'a2', cents: 2 });
  t.is(body[1].body, null);
  t.is(body[6].body, 'name\na2');
  t.is(body[2].headers['Preference-Applied'], 'return=representation');
});

test('the first failure undoes all, and says which it was', async (t) => {
  const { status, body } = await batch([
    { method: 'POST', path: '/accounts', body: { name: 'b1', cents: 1 } },
    { method: 'PATCH', path: '/accounts?name=eq.b1', body: { cents: -1 } },
    { method: 'POST', path: '/accounts', body: { name: 'b2', cents: 1 } },
  ]);
  t.is(status, 200);
  t.deepEqual(
    body.map((answer: { status: number; body: { code: string } }) => [answer.status, answer.body.code]),
    [
      [424, 'rolled_back'],
      [400, '23514'],
      [424, 'rolled_back'],
    ],
  );
  t.deepEqual((await p.rest('GET', '/accounts?name=like.b*')).body, []);
});

for (const [path, status, code] of [
  ['/acounts', 404, 'PGRST205'],
  ['/accounts?nope=eq.1', 400, '42703'],
  ['/accounts?name=xx.1', 400, 'PGRST100'],
  ['/rpc/nope', 404, 'PGRST202'],
] as const) {
  test(`a failing ${path} is the answer of its own request`, async (t) => {
    const { body } = await batch([
      { method: 'POST', path: '/accounts', body: { name: 'c', cents: 1 } },
      { method: 'GET', path },
    ]);
    t.deepEqual([body[0].status, body[1].status, body[1].body.code], [424, status, code]);
    t.deepEqual((await p.rest('GET', '/accounts?name=eq.c')).body, []);
  });
}

test('numbers in bodies stay exact, both ways', async (t) => {
  const raw = '[{"method":"POST","path":"/accounts?select=cents","body":{"name":"d","cents":9007199254740995}}]';
  const { text } = await p.rest('POST', '/rpc/$batch', { raw });
  t.regex(text, /"body":\{"cents":9007199254740995\}\}\]$/);
});

for (const [what, body] of [
  ['no array', { method: 'GET', path: '/accounts' }],
  ['more than 100', Array.from({ length: 101 }, () => ({ method: 'GET', path: '/accounts' }))],
  ['no objects', ['GET /accounts']],
  ['no method', [{ path: '/accounts' }]],
  ['an unknown method', [{ method: 'TRACE', path: '/accounts' }]],
  ['no path', [{ method: 'GET' }]],
  ['a path to nowhere', [{ method: 'GET', path: '/a/b/c' }]],
  ['a path to the root', [{ method: 'GET', path: '/' }]],
  ['a batch', [{ method: 'POST', path: '/rpc/$batch', body: [] }]],
  ['headers that are no texts', [{ method: 'GET', path: '/accounts', headers: { prefer: 1 } }]],
  ['an unknown field', [{ method: 'GET', path: '/accounts', query: 'x' }]],
] as const) {
  test(`a batch of ${what} is refused as a whole`, async (t) => {
    const answer = await batch(body);
    t.deepEqual([answer.status, answer.body.code], [400, 'PGRST102']);
  });
}

test('an empty batch is answered by an empty list', async (t) => {
  const { status, body } = await batch([]);
  t.deepEqual([status, body], [200, []]);
});

test('a batch with an Idempotency-Key happens once', async (t) => {
  const body = [{ method: 'POST', path: '/accounts', body: { name: 'once', cents: 1 } }];
  const first = await batch(body, { 'idempotency-key': 'batch-1' });
  const second = await batch(body, { 'idempotency-key': 'batch-1' });
  t.deepEqual([first.body[0].status, second.text], [201, first.text]);
  t.is(second.headers.get('idempotent-replayed'), 'true');
});

test('a batch of an anonymous caller is bound by policies', async (t) => {
  const { body } = await p.anon('POST', '/rpc/$batch', { body: [{ method: 'GET', path: '/accounts' }] });
  t.deepEqual([body[0].status, body[0].body.code], [403, '42501']);
});
