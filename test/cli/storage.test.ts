import { randomBytes } from 'node:crypto';
import { readFile, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import { openLinked, openWorkbench, useWorkbenches } from '#test/support/cli.ts';
import { makeToken } from '#test/support/personal-token.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import { startProxyTo } from '#test/support/tcp-proxy.ts';

const platform = usePlatform(test);
const kept = useWorkbenches(test);

const open = async () => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user, { plan: 'pro' });
  const bench = await kept(openLinked(platform(), user, project));
  return { user, project, bench, at: `plinth://${project.slug}` };
};

test('a file goes up and comes back as it was, whatever its name', async (t) => {
  const { bench, at } = await open();
  const bytes = randomBytes(10_000);
  await bench.write('Grüße & Bilder/a #1.bin', bytes);
  const up = await bench.json(['storage', 'cp', 'Grüße & Bilder/a #1.bin', `${at}/Ordner ü/`]);
  t.is(up.code, 0, up.stderr);
  t.deepEqual(up.value, { files: 1, bytes: 10_000 });
  const down = await bench.run(['storage', 'cp', `${at}/Ordner ü/a #1.bin`, 'back.bin']);
  t.is(down.code, 0, down.stderr);
  t.deepEqual(await readFile(path.join(bench.folder, 'back.bin')), bytes);
  t.deepEqual((await readdir(bench.folder)).toSorted(), ['Grüße & Bilder', 'back.bin', 'plinth']);
});

test('a folder is copied with all in it, listed, matched and deleted', async (t) => {
  const { bench, at } = await open();
  for (const name of ['a.txt', 'x/b.txt', 'x/y/c.md']) await bench.write(`site/${name}`, name);
  await bench.write('site/empty', '');
  t.is((await bench.run(['storage', 'cp', 'site', `${at}/web`])).code, 2, 'a folder needs -r');
  const up = await bench.run(['storage', 'cp', '-r', 'site', `${at}/web`]);
  t.is(up.code, 0, up.stderr);
  const { value } = await bench.json(['storage', 'ls', `${at}/web/`]);
  t.deepEqual(value.folders, ['web/x/']);
  t.deepEqual(
    value.objects.map(({ key, size }: { key: string; size: number }) => [key, size]),
    [
      ['web/a.txt', 5],
      ['web/empty', 0],
    ],
  );
  const matched = await bench.json(['storage', 'ls', `${at}/web/**/*.txt`]);
  t.is(matched.value.objects.length, 2);
  t.is((await bench.run(['storage', 'cp', '-r', `${at}/web`, 'copy'])).code, 0);
  t.is(await readFile(path.join(bench.folder, 'copy/x/y/c.md'), 'utf8'), 'x/y/c.md');
  t.is((await bench.run(['storage', 'cp', `${at}/web/x/*.txt`, 'texts/'])).code, 0);
  t.deepEqual(await readdir(path.join(bench.folder, 'texts')), ['b.txt']);
  t.is((await bench.run(['storage', 'rm', `${at}/web/`, '-r'])).code, 2, 'nobody can be asked');
  t.deepEqual((await bench.json(['storage', 'rm', `${at}/web/`, '-r', '--yes'])).value, { deleted: 4 });
  t.is((await bench.run(['storage', 'rm', `${at}/web/a.txt`, '--yes'])).code, 4);
});

test('a large file is resumable, and goes on after its connection was cut', async (t) => {
  const { project, bench, user } = await open();
  const { proxy, url } = await startProxyTo(platform().base);
  t.teardown(proxy.close);
  const { token } = await makeToken(platform().client, user, { scopes: ['admin'] });
  const env = { PLINTH_URL: url.replace(/\/$/, ''), PLINTH_ACCESS_TOKEN: token };
  const bytes = randomBytes(20_000_000);
  // Several, since a piece of the stream may end within one.
  for (const at of [8_000_000, 9_000_001, 10_000_003]) bytes.write('cut here', at);
  await bench.write('large.bin', bytes);
  proxy.cutAfter('cut here');
  const done = await bench.run(['storage', 'cp', 'large.bin', `plinth://${project.slug}/large.bin`], { env });
  t.is(done.code, 0, done.stderr);
  t.is((await bench.run(['storage', 'cp', `plinth://${project.slug}/large.bin`, 'back.bin'])).code, 0);
  t.true(bytes.equals(await readFile(path.join(bench.folder, 'back.bin'))));
});

test('standard input and output take part', async (t) => {
  const { bench, at } = await open();
  const sent = await bench.run(['storage', 'cp', '-', `${at}/from-pipe.txt`], { input: 'piped' });
  t.is(sent.code, 0, sent.stderr);
  const out = await bench.run(['storage', 'cp', `${at}/from-pipe.txt`, '-']);
  t.is(out.stdout, 'piped');
  t.is((await bench.run(['storage', 'upload', '-', `${at}/x`], { input: 'x' })).code, 0, 'by its other name');
  t.is((await bench.run(['storage', 'cp', '-', `${at}/`], { input: 'x' })).code, 2);
});

test('an object is copied within the platform', async (t) => {
  const { bench, at } = await open();
  await bench.run(['storage', 'cp', '-', `${at}/a`], { input: 'a' });
  t.is((await bench.run(['storage', 'cp', `${at}/a`, `${at}/folder/`])).code, 0);
  t.is((await bench.run(['storage', 'cp', `${at}/folder/a`, '-'])).stdout, 'a');
});

test('an object is moved, and a name that is taken stays as it is', async (t) => {
  const { bench, at } = await open();
  for (const name of ['a', 'b']) await bench.run(['storage', 'cp', '-', `${at}/${name}`], { input: name });
  const moved = await bench.json(['storage', 'mv', `${at}/a`, `${at}/folder/`]);
  t.deepEqual(moved.value, { moved: 1, skipped: 0 }, moved.stderr);
  t.is((await bench.run(['storage', 'cp', `${at}/folder/a`, '-'])).stdout, 'a');
  t.is((await bench.run(['storage', 'cp', `${at}/a`, '-'])).code, 4);
  t.is((await bench.run(['storage', 'mv', `${at}/folder/a`, `${at}/b`])).code, 5);
  t.is((await bench.run(['storage', 'cp', `${at}/b`, '-'])).stdout, 'b');
  t.is((await bench.run(['storage', 'mv', `${at}/folder/`, `${at}/c`])).code, 2, 'a folder needs -r');
});

test('a folder is moved and copied by a job; names that are taken are for the caller to decide', async (t) => {
  const { bench, at } = await open();
  for (const name of ['one', 'x/two']) await bench.write(`site/${name}`, name);
  const sent = await bench.run(['storage', 'cp', '-r', 'site', `${at}/from`]);
  t.is(sent.code, 0, sent.stderr);
  const namesIn = async (place: string): Promise<string[]> => {
    const { value } = await bench.json(['storage', 'ls', '-r', `${at}/${place}/`]);
    return value.objects.map(({ key }: { key: string }) => key);
  };
  const copied = await bench.json(['storage', 'cp', '-r', `${at}/from`, `${at}/to`]);
  t.deepEqual(copied.value, { copied: 2, skipped: 0 }, copied.stderr);
  const taken = await bench.run(['storage', 'mv', '-r', `${at}/from`, `${at}/to`]);
  t.is(taken.code, 5);
  t.regex(taken.stderr, /2 of 2 files have names that are taken[^]*to\/one[^]*--on-collision skip/);
  t.is((await bench.run(['storage', 'mv', '-r', `${at}/from`, `${at}/to`, '--on-collision', 'ask'])).code, 2);
  const skip = ['--on-collision', 'skip'];
  t.deepEqual((await bench.json(['storage', 'mv', '-r', `${at}/from`, `${at}/to`, ...skip])).value, {
    moved: 0,
    skipped: 2,
  });
  const replace = ['storage', 'mv', '-r', `${at}/from`, `${at}/to`, '--on-collision', 'replace'];
  t.is((await bench.run(replace)).code, 2, 'nobody can be asked');
  t.deepEqual((await bench.json([...replace, '--yes'])).value, { moved: 2, skipped: 0 });
  t.deepEqual(await namesIn('to'), ['to/one', 'to/x/two']);
  t.deepEqual(await namesIn('from'), []);
  const byKey = await bench.run(['storage', 'mv', '-r', `${at}/to`, `${at}/back`], { env: { PLINTH_API_KEY: 'none' } });
  t.not(byKey.code, 0);
});

test('what is not there, or no place, is said so', async (t) => {
  const { bench, at } = await open();
  const cases: readonly (readonly [readonly string[], number])[] = [
    [['cp', 'nowhere.txt', `${at}/x`], 1],
    [['cp', `${at}/nowhere`, 'x'], 4],
    [['cp', '-r', `${at}/nowhere`, 'x'], 4],
    [['cp', 'plinth://no-such-bucket/x', 'x'], 4],
    [['cp', 'a', 'b'], 2],
    [['cp', '', `${at}/x`], 2],
    [['cp', `${at}/`, 'x'], 2],
    [['ls', 'folder'], 2],
    [['ls', 'plinth://no-such-bucket/'], 4],
    [['rm', `${at}/`, '--yes'], 2],
  ];
  for (const [args, code] of cases) {
    const answer = await bench.run(['storage', ...args]);
    t.is(answer.code, code, `${args.join(' ')}: ${answer.stderr}`);
  }
  t.false((await readdir(bench.folder)).includes('x'), 'nothing is left of what failed');
});

test('an object whose name leads out of the folder is not written', async (t) => {
  const { bench, at, project } = await open();
  const headers = { apikey: project.key, 'content-type': 'text/plain' };
  const made = await platform().client.call(
    'POST',
    `/p/${project.ref}/storage/v1/object/${project.slug}/a/..%2F..%2Fevil`,
    {
      headers,
      raw: 'x',
    },
  );
  const answer = await bench.run(['storage', 'cp', '-r', `${at}/a`, 'out']);
  t.true(made.status >= 400 || answer.code === 2, answer.stderr);
  t.false((await readdir(bench.folder)).includes('evil'));
});

test('files are used with the rights of who is signed in, and with a key where one is given', async (t) => {
  const { bench, project, at } = await open();
  const benchOf = async (role: 'viewer' | 'developer') => {
    const { token } = await makeToken(platform().client, await addMember(platform(), project.orgId, role));
    return kept(
      openWorkbench({ PLINTH_URL: platform().base, PLINTH_ACCESS_TOKEN: token, PLINTH_PROJECT: project.ref }),
    );
  };
  const [viewer, developer] = [await benchOf('viewer'), await benchOf('developer')];
  for (const one of [viewer, developer]) await writeFile(path.join(one.folder, 'note.txt'), 'note');
  t.is((await viewer.run(['storage', 'ls'])).code, 0);
  const refused = await viewer.run(['storage', 'cp', 'note.txt', `${at}/note.txt`]);
  t.is(refused.code, 1);
  t.regex(refused.stderr, /role developer/);
  t.is((await developer.run(['storage', 'cp', 'note.txt', `${at}/note.txt`])).code, 0);
  t.regex((await bench.run(['storage', 'ls', `${at}/`])).stdout, /note\.txt/);
  t.is((await viewer.run(['storage', 'ls'], { env: { PLINTH_API_KEY: project.key } })).code, 0);
  const given = await viewer.run(['storage', 'cp', 'note.txt', `${at}/by-key.txt`], {
    env: { PLINTH_API_KEY: project.key },
  });
  t.is(given.code, 0, given.stderr);
});
