import { type IncomingHttpHeaders, request } from 'node:http';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import test from 'ava';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test);

interface RawAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** As it came: fetch would unpack it. */
  readonly body: Buffer;
}

interface RawRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The connection is cut when the head of the answer has come. */
  readonly isCut?: boolean;
}

const readRaw = (url: string, { method, headers, isCut = false }: RawRequest): Promise<RawAnswer> =>
  new Promise((resolve, reject) => {
    const sent = request(url, { method, headers }, (answer) => {
      if (isCut) answer.destroy(new Error('cut'));
      const parts: Buffer[] = [];
      answer.on('data', (part: Buffer) => parts.push(part));
      answer.on('error', reject);
      answer.on('end', () =>
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(parts) }),
      );
    });
    sent.on('error', reject);
    sent.end();
  });

let user: TestUser;
let project: TestProject;

const sql = async (text: string): Promise<void> => {
  const answer = await platform().client.call('POST', `/projects/${project.id}/db/query`, {
    token: user.token,
    body: { sql: text },
  });
  if (answer.status !== 200) throw new Error(answer.text);
};

test.before('there are rows', async () => {
  user = await platform().client.signUp();
  project = await platform().client.createProject(user);
  await sql('create table notes (id int primary key, text text)');
  await sql(`insert into notes select i, 'a text of row ' || i from generate_series(1, 300) i`);
  for (const name of ['one', 'two', 'three']) await sql(`create table ${name} (id int primary key, text text)`);
  await sql('create table long (id int primary key, text text)');
  await sql(`insert into long select i, repeat(md5(i::text), 100) from generate_series(1, 300) i`);
});

const ask = (path: string, encoding: string, more: Readonly<Record<string, string>> = {}, method = 'GET') =>
  readRaw(`${platform().base}${path}`, {
    method,
    headers: { authorization: `Bearer ${user.token}`, 'accept-encoding': encoding, ...more },
  });
const rows = (table: string): string => `/projects/${project.id}/rest/v1/${table}?limit=300`;

test('long answers are compressed as the client takes it, and say so', async (t) => {
  for (const table of ['notes', 'long']) {
    const plain = await ask(rows(table), 'identity');
    t.is(plain.headers['content-encoding'], undefined);
    t.regex(String(plain.headers['vary']), /Accept-Encoding/i);
    const gzip = await ask(rows(table), 'gzip');
    t.is(gzip.headers['content-encoding'], 'gzip');
    t.is(gunzipSync(gzip.body).toString(), plain.body.toString());
    const br = await ask(rows(table), 'gzip, br');
    t.is(br.headers['content-encoding'], 'br');
    t.is(brotliDecompressSync(br.body).toString(), plain.body.toString());
    t.is(br.headers['content-type'], plain.headers['content-type']);
    t.true(br.body.length < plain.body.length);
  }
  t.is((await ask(rows('notes'), 'gzip;q=0, br;q=0')).headers['content-encoding'], undefined);
});

test('of an Accept-Encoding that is very long only the beginning counts', async (t) => {
  const long = ',x'.repeat(50_000);
  t.is((await ask(rows('notes'), `gzip${long}`)).headers['content-encoding'], 'gzip');
  t.is((await ask(rows('notes'), `x${long},gzip`)).headers['content-encoding'], undefined);
  // A name is never cut: without the end it would say the opposite.
  const refusal = `${'x,'.repeat(497)}gzip;q=0`;
  t.is((await ask(rows('notes'), refusal)).headers['content-encoding'], undefined);
});

test('short answers, other methods and errors stay as they are', async (t) => {
  const short = await ask(`/projects/${project.id}/rest/v1/notes?limit=1`, 'gzip');
  t.is(short.headers['content-encoding'], undefined);
  t.is((await ask(rows('notes'), 'gzip', {}, 'HEAD')).headers['content-encoding'], undefined);
  t.is((await ask(`/projects/${project.id}/rest/v1/nothing`, 'gzip')).headers['content-encoding'], undefined);
  t.is((await ask(rows('notes'), 'gzip', { accept: 'text/csv' })).headers['content-encoding'], undefined);
});

test('the schema has one tag for its text, compressed or not', async (t) => {
  const path = `/projects/${project.id}/db/schema`;
  const gzip = await ask(path, 'gzip');
  const plain = await ask(path, 'identity');
  t.is(gzip.headers['content-encoding'], 'gzip');
  t.is(gzip.headers['etag'], plain.headers['etag']);
  t.regex(String(plain.headers['etag']), /^W\/"/);
  const same = await ask(path, 'gzip', { 'if-none-match': String(plain.headers['etag']) });
  t.is(same.status, 304);
  t.is(same.body.length, 0);
});

test('answers with keys, sessions and accounts are never compressed', async (t) => {
  for (let index = 0; index < 8; index += 1) {
    const body = { name: `key ${index} ${'x'.repeat(80)}`, kind: 'secret' };
    await platform().client.call('POST', `/projects/${project.id}/api-keys`, { token: user.token, body });
  }
  const keys = await ask(`/projects/${project.id}/api-keys`, 'gzip');
  t.true(keys.body.length > 1024);
  t.is(keys.headers['content-encoding'], undefined);
  t.is((await ask('/auth/sessions', 'gzip')).headers['content-encoding'], undefined);
});

test('a reader that goes away harms nobody', async (t) => {
  await t.throwsAsync(
    readRaw(`${platform().base}${rows('long')}`, {
      method: 'GET',
      headers: { authorization: `Bearer ${user.token}`, 'accept-encoding': 'br' },
      isCut: true,
    }),
  );
  t.is((await ask(rows('long'), 'br')).status, 200);
});
