import test from 'ava';
import { createJsonParser } from '#lib/json-parser.ts';
import { readEntries } from '#domain/data-api/rest/batch.ts';
import { type Outcome, outcomeOf, payloadOf, readArguments, readPayload } from '#domain/data-api/rest/payload.ts';
import { maxInlineBytes, readBatch, withBodyRead } from '#domain/data-api/rest/read-ahead.ts';
import type { RestRequest } from '#domain/data-api/rest/request.ts';
import { usePlatform } from '#test/support/platform.ts';
import { createRestProject } from './rest-project.ts';

const platform = usePlatform(test);
const parser = createJsonParser();
test.after.always(() => parser.close());

/** Too long for the event loop, whatever stands in it. */
const padding = ' '.repeat(maxInlineBytes);

const refusalOf = (outcome: Outcome<unknown>): unknown => ('refusal' in outcome ? outcome.refusal : 'not refused');

const json = 'application/json';
const wrongBodies: readonly (readonly [what: string, type: string, body: string | Buffer])[] = [
  ['no JSON', json, `{"title":${padding}`],
  ['a comma too many', json, `[{"title":"x"},${padding}]`],
  ['a text', json, `"x"${padding}`],
  ['texts', json, `["x"${padding}]`],
  ['a tower of brackets', json, `{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}`],
  ['too many objects', json, `[${'{},'.repeat(300_000)}{}]`],
  ['no UTF-8', json, Buffer.concat([Buffer.from(`{"title":"${padding}`), Buffer.from([0xff]), Buffer.from('"}')])],
  ['an unknown type', 'text/yaml', `a: 1${padding}`],
  ['CSV without its quote', 'text/csv', `title\n"x${padding}`],
];

test('what is wrong with a large body is said in the words of a small one', async (t) => {
  const { rest } = await createRestProject(
    platform(),
    'create table todos (title text); create function f(a text) returns text language sql as $$ select a $$',
  );
  for (const [what, type, body] of wrongBodies) {
    const bytes = Buffer.from(body);
    const send = (path: string) => rest('POST', path, { raw: bytes, headers: { 'content-type': type } });
    const { request_id: _written, ...written } = (await send('/todos')).body;
    const refusal = refusalOf(outcomeOf(() => readPayload(type, bytes)));
    t.like(refusal, written, what);
    const called = await send('/rpc/f');
    const outcome = outcomeOf(() => readArguments(type, bytes));
    if ('refusal' in outcome)
      t.like(called.body, { code: outcome.refusal.code, message: outcome.refusal.message }, what);
    else t.is(called.body.code, 'PGRST202', what);
  }
  const batch = await rest('POST', '/rpc/$batch', { raw: `[{"method":"GET"}${padding}]` });
  t.is(batch.body.message, 'Entry 0 of the batch: "path" must be a text');
});

test('a large body is written as it came, by itself, in a batch, as CSV and as arguments', async (t) => {
  const { rest, sql } = await createRestProject(
    platform(),
    `create table todos (id int, big numeric, title text);
     create function texts(a text, b json) returns int language sql as $$ select length(a) + json_array_length(b) $$`,
  );
  const rows = Array.from({ length: 2000 }, (_, id) => `{"id":${id},"big":9007199254740995.10,"title":"ü ${id}"}`);
  const made = await rest('POST', '/todos?select=big', { raw: `[${rows.join(',')}]` });
  t.is(made.status, 201);
  t.is(made.text.match(/"big":9007199254740995\.10/g)?.length, 2000);
  const entry = `{"method":"POST","path":"todos","headers":{"Prefer":"return=minimal"},"body":[${rows.join(',')}]}`;
  const bad = '{"method":"PATCH","path":"todos?id=eq.1","body":[1]}';
  const batch = await rest('POST', '/rpc/$batch', { raw: `[${entry},${entry}]` });
  t.deepEqual(
    batch.body.map((one: { status: number }) => one.status),
    [201, 201],
  );
  const undone = await rest('POST', '/rpc/$batch', { raw: `[${entry},${bad}]` });
  t.deepEqual(
    undone.body.map((one: { status: number }) => one.status),
    [424, 400],
  );
  const csv = `id,title\n${rows.map((_, id) => `${id},"a ""b"" ${id}"`).join('\n')}`;
  t.is((await rest('POST', '/todos', { raw: csv, headers: { 'content-type': 'text/csv' } })).status, 201);
  const counted = 'select count(*)::int as n, count(distinct big::text)::int as bigs, min(big)::text as big from todos';
  t.deepEqual(await sql(counted), [{ n: 8000, bigs: 1, big: '9007199254740995.10' }]);
  const called = await rest('POST', '/rpc/texts', { body: { a: 'é'.repeat(50_000), b: [1, 2] } });
  t.is(called.text, '50002');
});

test('a CSV whose lines would repeat long names of columns without end is refused', async (t) => {
  const { rest } = await createRestProject(platform(), 'create table todos (title text)');
  const raw = `${'x'.repeat(400_000)}\n${'1\n'.repeat(100_000)}`;
  const { status, body } = await rest('POST', '/todos', { raw, headers: { 'content-type': 'text/csv' } });
  t.deepEqual([status, body.code], [413, 'PGRST102']);
});

const requestOf = (body: string): RestRequest => ({
  method: 'POST',
  path: '/t',
  target: { kind: 'table', table: 't' },
  queryText: '',
  header: () => '',
  body: Buffer.from(body),
});

const used = ({ user, system }: NodeJS.CpuUsage): number => user + system;

/** The part of the processor time of some work that the thread of the event loop used. */
const ownShare = async (work: () => Promise<unknown>): Promise<number> => {
  const [own, all] = [process.threadCpuUsage(), process.cpuUsage()];
  await work();
  return used(process.threadCpuUsage(own)) / used(process.cpuUsage(all));
};

const names = Array.from({ length: 10_000 }, (_, index) => `"k${index}":1`).join(',');

test.serial('large bodies are read beside the event loop', async (t) => {
  const requests = Array.from({ length: 10 }, () => requestOf(`{${names}}`));
  let read: readonly RestRequest[] = [];
  const share = await ownShare(async () => {
    read = await Promise.all(requests.map((request) => withBodyRead(parser, 'owner', request)));
  });
  t.true(share < 0.5, `${share}`);
  t.true(read.every((request) => request.read !== undefined && payloadOf(request).keys.length === 10_000));
  const body = Buffer.from(
    `[${Array.from({ length: 10 }, () => `{"method":"POST","path":"t","body":[${'1,'.repeat(10_000)}1]}`).join(',')}]`,
  );
  t.deepEqual(readEntries(body, false).length, 10);
  const shareOfBatch = await ownShare(() => readBatch(parser, { owner: 'owner', body, withRows: false }));
  t.true(shareOfBatch < 0.5, `${shareOfBatch}`);
  t.log(`${share} and ${shareOfBatch} of the processor time`);
});

test('a small body is left to the event loop', async (t) => {
  const request = requestOf('{"a":1}');
  t.is(await withBodyRead(parser, 'owner', request), request);
});
