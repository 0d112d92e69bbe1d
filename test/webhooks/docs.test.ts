import { execFile } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import test from 'ava';
import { allSettings } from '#queues/settings.ts';
import { endpoints } from '#api/endpoints.ts';
import { eventKinds } from '#domain/events/events.ts';
import { bodyOf, signatureHeaders } from '#domain/webhooks/message.ts';
import { makeSecret } from '#domain/webhooks/secrets.ts';
import { blocksOf, readDocument } from '#test/readme/markdown.ts';

const document = readDocument('docs/webhooks.md');
const run = promisify(execFile);

const snippetOf = (language: string): string => {
  const block = blocksOf(document).find((each) => each.language === language && /verify/i.test(each.text));
  if (block === undefined) throw new Error(`there is no ${language} that verifies`);
  return block.text;
};

const now = 1_800_000_000;
const body = bodyOf(
  {
    id: '01920c3e-7a5b-7c1d-8e2f-3a4b5c6d7e8f',
    project_id: '01920c3e-0000-7000-8000-000000000001',
    event: 'table.orders.INSERT',
    data: '{"row":{"id":9007199254740993,"name":"ü\\u0000"}}',
    created_at: new Date(0),
  },
  'db.insert',
  null,
);

type Headers = Readonly<Record<string, string>>;

const headersFor = (secret: string, previousSecret: string | null = null): Headers => {
  const signed = signatureHeaders({ id: 'an-id', timestamp: now, body, secret, previousSecret });
  return Object.fromEntries(Object.entries(signed).map(([name, value]) => [name.toLowerCase(), value]));
};

interface Case {
  readonly what: string;
  readonly headers: Headers;
  readonly body: string;
  readonly secret: string;
  readonly now: number;
  /** By Standard Webhooks, and by the plain recipe. */
  readonly expected: readonly [boolean, boolean];
}

/** Texts that a stranger can write into headers: a receiver refuses, and goes on. */
const odd: readonly (readonly [string, Headers, readonly [boolean, boolean]])[] = [
  ['as many characters, but more bytes', { 'webhook-signature': 'é'.repeat(47) }, [false, true]],
  ['as many characters, but more bytes, in hex', { 'x-webhook-signature': 'é'.repeat(64) }, [true, false]],
  ['half characters', { 'webhook-signature': '\uDCE9', 'x-webhook-signature': '\uDCE9' }, [false, false]],
  ['an id of half a character', { 'webhook-id': '\uDCE9' }, [false, true]],
  ['a time in a digit that is no number', { 'webhook-timestamp': '²' }, [false, true]],
  ['a time of 5,000 digits', { 'webhook-timestamp': '9'.repeat(5000) }, [false, true]],
  ['a time that is none', { 'webhook-timestamp': 'NaN' }, [false, true]],
  ['nothing in any of them', { 'webhook-id': '', 'webhook-timestamp': '', 'webhook-signature': '' }, [false, true]],
];

const cases: readonly Case[] = [makeSecret(), 'a secret of my own'].flatMap((secret) => {
  const one = { headers: headersFor(secret), body: body.toString(), secret, now };
  const other = `${secret}x`;
  return [
    { what: 'as it was sent', ...one, expected: [true, true] },
    { what: 'a little late', ...one, now: now + 299, expected: [true, true] },
    { what: 'too late', ...one, now: now + 301, expected: [false, true] },
    { what: 'too early', ...one, now: now - 301, expected: [false, true] },
    { what: 'changed', ...one, body: `${one.body} `, expected: [false, false] },
    { what: 'under another id', ...one, headers: { ...one.headers, 'webhook-id': 'b' }, expected: [false, true] },
    { what: 'without headers', ...one, headers: {}, expected: [false, false] },
    { what: 'signed by somebody else', ...one, headers: headersFor('somebody-else'), expected: [false, false] },
    { what: 'after a rotation', ...one, headers: headersFor(makeSecret(), secret), expected: [true, false] },
    { what: 'by the secret before', ...one, headers: headersFor(secret, other), expected: [true, true] },
    ...odd.map(([what, headers, expected]) => ({ what, ...one, headers: { ...one.headers, ...headers }, expected })),
  ];
});

test('the JavaScript of the page takes what is signed, and nothing else', async (t) => {
  const { verify, verifyPlain } = (await import(
    `data:text/javascript,${encodeURIComponent(snippetOf('js'))}`
  )) as Record<string, (...args: unknown[]) => boolean>;
  for (const { what, headers, body: text, secret, now: at, expected } of cases) {
    t.deepEqual([verify?.(headers, text, secret, at), verifyPlain?.(headers, text, secret)], expected, what);
  }
});

test('the Python of the page takes what is signed, and nothing else', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'plinth-test-'));
  const script = `${snippetOf('python')}
import json, sys
for case in json.load(open(sys.argv[1])):
    body = case["body"].encode()
    print(json.dumps([verify(case["headers"], body, case["secret"], case["now"]), verify_plain(case["headers"], body, case["secret"])]))
`;
  try {
    await writeFile(path.join(folder, 'cases.json'), JSON.stringify(cases));
    const { stdout } = await run('python3', ['-c', script, path.join(folder, 'cases.json')]);
    const answers = stdout.trim().split('\n');
    for (const [at, { what, expected }] of cases.entries()) {
      t.deepEqual(JSON.parse(answers[at] ?? ''), expected, what);
    }
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('both recipes are what the page says in words', (t) => {
  const headers = headersFor('whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX');
  const key = Buffer.from('AAECAwQFBgcICQoLDA0ODxAREhMUFRYX', 'base64');
  const standard = createHmac('sha256', key).update(`an-id.${now}.${body.toString()}`).digest('base64');
  t.is(headers['webhook-signature'], `v1,${standard}`);
  const plain = createHmac('sha256', 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX').update(body).digest('hex');
  t.is(headers['x-webhook-signature'], plain);
});

test('the page lists every event there is, as the API does', (t) => {
  const [, table = ''] = /\| event [^\n]*\n\|[-| ]+\n((?:\|[^\n]*\n)+)/.exec(document) ?? [];
  const rows = table
    .trim()
    .split('\n')
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  t.deepEqual(
    rows,
    eventKinds.map(({ name, group, description, emittedBy }) => [`\`${name}\``, group, description, emittedBy]),
  );
});

test('the calls and settings that the page names are there', (t) => {
  const calls = [...document.matchAll(/(GET|POST|PUT|DELETE) …(\/webhooks[^\s`]*)/g)];
  t.true(calls.length > 5);
  for (const [, method = '', called = ''] of calls) {
    const wanted = called.replace('{id}', '{webhook_id}');
    t.true(
      endpoints.some((each) => each.method === method.toLowerCase() && each.path.endsWith(`/integrations${wanted}`)),
      `${method} ${called}`,
    );
  }
  for (const [name] of document.matchAll(/\bPLINTH_\w+/g)) t.true(name in allSettings.shape, name);
});
