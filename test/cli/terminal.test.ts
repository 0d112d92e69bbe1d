import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import { type Workbench, openLinked, openWorkbench, useWorkbenches } from '#test/support/cli.ts';
import { makeToken } from '#test/support/personal-token.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type TerminalEnd, type TerminalSpec, inTerminal } from '#test/support/terminal.ts';

const platform = usePlatform(test);
const kept = useWorkbenches(test);
const entry = path.resolve(import.meta.dirname, '../../cli/plinth.mjs');

interface Typed extends Pick<TerminalSpec, 'columns' | 'steps'> {
  readonly env?: Readonly<Record<string, string>>;
}

const type = (
  { folder, home }: Workbench,
  args: readonly string[],
  { env = {}, ...rest }: Typed = {},
): Promise<TerminalEnd> =>
  inTerminal({
    argv: [process.execPath, entry, ...args],
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', HOME: home, TERM: 'xterm', PLINTH_URL: platform().base, ...env },
    ...rest,
  });

const open = async () => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user, { plan: 'pro' });
  const bench = await kept(openLinked(platform(), user, project));
  const { token } = await makeToken(platform().client, user, { scopes: ['admin'] });
  return { user, project, bench, env: { PLINTH_ACCESS_TOKEN: token } };
};

test('a password that is typed is not shown', async (t) => {
  const user = await platform().client.signUp();
  const bench = await kept(openWorkbench());
  const end = await type(bench, ['login', '--email', user.email], {
    steps: [{ expect: 'Password: ', send: `x\u007F${user.password}\r` }],
  });
  t.is(end.code, 0, end.output);
  t.false(end.output.includes(user.password));
  t.false(end.output.includes('*'));
  t.true(end.output.includes(`as ${user.email}`));
});

test('Ctrl-C at a question ends with 130', async (t) => {
  const user = await platform().client.signUp();
  const bench = await kept(openWorkbench());
  const end = await type(bench, ['login', '--email', user.email], {
    steps: [{ expect: 'Password: ', send: 'abc\u0003' }],
  });
  t.is(end.code, 130, end.output);
  t.false(end.output.includes('abc'));
});

test('deleting asks, and anything but yes changes nothing', async (t) => {
  const { user, project, bench, env } = await open();
  const { slug } = await platform().client.deploy(user, project, 'export const handler = () => 1;');
  const no = await type(bench, ['functions', 'delete', slug], { env, steps: [{ expect: '[y/N] ', send: '\r' }] });
  t.is(no.code, 2, no.output);
  t.true(no.output.includes(`The function ${slug} and its 1 versions will be deleted.`));
  const yes = await type(bench, ['functions', 'delete', slug], { env, steps: [{ expect: '[y/N] ', send: 'y\r' }] });
  t.is(yes.code, 0, yes.output);
});

test('a copy shows how far it is, and fits a narrow terminal', async (t) => {
  const { project, bench, env } = await open();
  await bench.write('large file with a long name.bin', randomBytes(30_000_000));
  const end = await type(bench, ['storage', 'cp', 'large file with a long name.bin', `plinth://${project.slug}/`], {
    env,
    columns: 40,
  });
  t.is(end.code, 0, end.output);
  t.regex(end.output, /\d %/);
  // oxlint-disable-next-line no-control-regex -- the line is written again after such a sequence
  const drawn = end.output.split(/\r\u001B\[K/).slice(1, -1);
  t.true(drawn.length > 0);
  for (const line of drawn) t.true(line.length < 40, line);
});

test('Ctrl-C in a download leaves no half of a file and no key', async (t) => {
  const { user, project, bench, env } = await open();
  await bench.write('large.bin', randomBytes(40_000_000));
  const place = `plinth://${project.slug}/large.bin`;
  t.is((await bench.run(['storage', 'cp', 'large.bin', place])).code, 0);
  const end = await type(bench, ['storage', 'cp', place, 'back.bin'], {
    env,
    steps: [{ expect: ' %', send: '\u0003' }],
  });
  const files = await readdir(bench.folder);
  // A fast machine may have been done before it was stopped.
  if (end.code === 0) t.true(files.includes('back.bin'));
  else {
    t.is(end.code, 130, end.output);
    t.deepEqual(files.toSorted(), ['large.bin', 'plinth']);
  }
  const keys = await platform().client.call('GET', `/projects/${project.id}/api-keys`, { token: user.token });
  t.false(keys.text.includes('plinth storage'));
});

test('three questions make a small project', async (t) => {
  const bench = await kept(openWorkbench());
  const answers = ['A table', 'Rows', 'A function'].map((expect, index) => ({
    expect,
    send: index === 1 ? 'n\r' : '\r',
  }));
  const end = await type(bench, ['init'], { steps: answers });
  t.is(end.code, 0, end.output);
  t.deepEqual((await readdir(path.join(bench.folder, 'plinth'))).toSorted(), ['functions', 'migrations']);
});

test('colours are for terminals that want them', async (t) => {
  const bench = await kept(openWorkbench());
  t.true((await type(bench, ['nonsense'])).output.includes('\u001B[31m'));
  t.false((await type(bench, ['nonsense'], { env: { NO_COLOR: '1' } })).output.includes('\u001B['));
});
