import { execFile } from 'node:child_process';
import { readFile, readdir } from 'node:fs/promises';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';
import test from 'ava';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';

const root = path.resolve(import.meta.dirname, '../..');
const folder = path.join(root, 'docs/functions');
const names = (await readdir(path.join(folder, 'examples'))).sort();

const platform = usePlatform(test, { settings: { PLINTH_EGRESS_ALLOW: '127.0.0.0/8' } });

let user: TestUser;
let project: TestProject;
let serverUrl = '';

/** The other side of the examples that call one. */
const service = createServer((request, response) => {
  const url = new URL(request.url ?? '/', 'http://service');
  const json = (value: unknown) => response.setHeader('content-type', 'application/json').end(JSON.stringify(value));
  if (url.pathname === '/weather') return void json({ degrees: url.searchParams.get('city') === 'Oslo' ? 7 : 21 });
  if (url.pathname === '/events') return void response.end('{"value":1}\n{"value":2}\n{"value":3}');
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const text = Buffer.concat(chunks).toString();
    json({ fields: [...text.matchAll(/form-data; name="(\w+)"/g)].map(([, name]) => name) });
  });
});

test.before('a project and a server', async () => {
  service.listen(0, '127.0.0.1');
  await once(service, 'listening');
  serverUrl = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;
  user = await platform().client.signUp();
  project = await platform().client.createProject(user);
});

test.after.always(() => {
  service.close();
  service.closeAllConnections();
});

/** The claims of the comment at the head of an example. */
const headOf = (source: string) => {
  const field = (name: string): string | undefined => new RegExp(`@${name} (.*)`).exec(source)?.[1];
  const value = (name: string): unknown => {
    const text = field(name) ?? 'null';
    // In Python the comment is a string of the program, where a backslash is written twice.
    return JSON.parse(source.startsWith('"""') ? text.replaceAll('\\\\', '\\') : text);
  };
  const [name = '', setting = ''] = field('env')?.split('=') ?? [];
  return { setup: field('setup'), payload: value('payload'), answer: value('answer'), env: { name, setting } };
};

for (const name of names) {
  const python = name.endsWith('.py');
  test(`docs/functions/examples/${name} answers what its comment says`, async (t) => {
    const { client } = platform();
    const source = await readFile(path.join(folder, 'examples', name), 'utf8');
    const { setup, payload, answer, env } = headOf(source);
    const language = python ? 'python' : 'javascript';
    if (setup !== undefined) {
      const run = `exports.handler = async (sql, { db }) => { for (const one of sql.split(';')) await db.query(one) }`;
      const made = await client.invoke(user, project, await client.deploy(user, project, run), setup);
      t.is(made.body.status, 'success', made.text);
    }
    const env_vars = env.name === '' ? {} : { [env.name]: env.setting.replace('{server}', serverUrl) };
    const fn = await client.deploy(user, project, source, { language, env_vars });
    const run = await client.invoke(user, project, fn, payload);
    t.is(run.body.status, 'success', run.text);
    t.deepEqual(run.body.result, answer);
  });
}

test('the guide names every example', async (t) => {
  const guide = await readFile(path.join(folder, 'README.md'), 'utf8');
  for (const name of names) t.true(guide.includes(`(examples/${name})`), name);
});

test('the examples fit the types for authors', async (t) => {
  const tsc = path.join(root, 'node_modules/.bin/tsc');
  await t.notThrowsAsync(promisify(execFile)(tsc, ['-p', folder, '--noEmit']));
});

test('the types for authors are served', async (t) => {
  const answer = await platform().client.call('GET', '/docs/plinth.d.ts');
  t.is(answer.status, 200);
  t.is(answer.text, await readFile(path.join(folder, 'plinth.d.ts'), 'utf8'));
});
