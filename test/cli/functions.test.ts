import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import { openLinked, useWorkbenches } from '#test/support/cli.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { shared: true });
const kept = useWorkbenches(test);

const open = async () => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user);
  return { user, project, bench: await kept(openLinked(platform(), user, project)) };
};

test('a function is made, deployed, called, changed and rolled back', async (t) => {
  const { bench } = await open();
  t.is((await bench.run(['functions', 'new', 'greet'])).code, 0);
  const deployed = await bench.json(['functions', 'deploy']);
  t.is(deployed.code, 0, deployed.stderr);
  t.like(deployed.value.deployed[0], { slug: 'greet', outcome: 'created' });
  const called = await bench.run(['functions', 'invoke', 'greet', '--payload', '{"name":"Ada"}']);
  t.is(called.code, 0, called.stderr);
  t.deepEqual(JSON.parse(called.stdout), { hello: 'Ada' });
  t.is((await bench.json(['functions', 'deploy', 'greet'])).value.deployed[0].outcome, 'unchanged');
  await bench.write('plinth/functions/greet/index.ts', 'export const handler = () => "changed";\n');
  t.is((await bench.json(['functions', 'deploy'])).value.deployed[0].outcome, 'updated');
  t.is((await bench.run(['functions', 'invoke', 'greet'])).stdout, '"changed"\n');
  t.is((await bench.run(['functions', 'rollback', 'greet'])).code, 0);
  t.deepEqual(JSON.parse((await bench.run(['functions', 'invoke', 'greet'])).stdout), { hello: 'world' });
});

for (const language of ['javascript', 'typescript', 'python']) {
  test(`a new function in ${language} works as it is`, async (t) => {
    const { bench } = await open();
    await bench.run(['functions', 'new', 'hello', '--language', language]);
    const deployed = await bench.run(['functions', 'deploy']);
    t.is(deployed.code, 0, deployed.stderr);
    const called = await bench.run(['functions', 'invoke', 'hello']);
    t.is(called.code, 0, called.stderr);
    t.deepEqual(JSON.parse(called.stdout), { hello: 'world' });
  });
}

test('several files are one function, tests and packages are left out', async (t) => {
  const { bench } = await open();
  await bench.write(
    'plinth/functions/sum/index.ts',
    `import { add } from './add.ts';\nexport const handler = ([a, b]: number[]) => add(a ?? 0, b ?? 0);\n`,
  );
  await bench.write('plinth/functions/sum/add.ts', '\uFEFFexport const add = (a: number, b: number) => a + b;\r\n');
  await bench.write('plinth/functions/sum/add.test.ts', 'this is not code');
  await bench.write('plinth/functions/sum/node_modules/x/index.js', 'neither is this');
  await bench.write('plinth/functions/sum/plinth.json', JSON.stringify({ timeout_ms: 5000, access: 'public' }));
  const deployed = await bench.run(['functions', 'deploy']);
  t.is(deployed.code, 0, deployed.stderr);
  t.is((await bench.run(['functions', 'invoke', 'sum', '-d', '[2,3]'])).stdout, '5\n');
  const [fn] = (await bench.json(['functions', 'list'])).value;
  t.like(fn, { slug: 'sum', access: 'public', timeout_ms: 5000 });
  t.is((await bench.json(['functions', 'deploy'])).value.deployed[0].outcome, 'unchanged');
});

test('npm packages are bundled by the project’s own esbuild', async (t) => {
  const { bench } = await open();
  await bench.write(
    'plinth/functions/shout/index.ts',
    `import { shout } from 'loud';\nexport const handler = (text: string) => shout(text);\n`,
  );
  const alone = await bench.run(['functions', 'deploy']);
  t.is(alone.code, 1);
  t.regex(alone.stderr, /npm install --save-dev esbuild/);
  await bench.write('node_modules/loud/package.json', JSON.stringify({ name: 'loud', main: 'index.js' }));
  await bench.write('node_modules/loud/index.js', 'exports.shout = (text) => text.toUpperCase();');
  const own = path.join(bench.folder, 'node_modules/esbuild');
  await mkdir(own, { recursive: true });
  const real = path.resolve(import.meta.dirname, '../../node_modules/esbuild/lib/main.js');
  await writeFile(path.join(own, 'package.json'), JSON.stringify({ name: 'esbuild', main: 'main.cjs' }));
  await writeFile(path.join(own, 'main.cjs'), `module.exports = require(${JSON.stringify(real)});`);
  const deployed = await bench.run(['functions', 'deploy']);
  t.is(deployed.code, 0, deployed.stderr);
  t.is((await bench.run(['functions', 'invoke', 'shout', '-d', '"hi"'])).stdout, '"HI"\n');
  t.is((await bench.json(['functions', 'deploy'])).value.deployed[0].outcome, 'unchanged');
});

test('a payload comes from a file or standard input, too', async (t) => {
  const { bench, user, project } = await open();
  const { slug } = await platform().client.deploy(user, project, 'export const handler = (n) => n;');
  const file = await bench.write('my payload.json', '\uFEFF{"a":1}');
  t.deepEqual(JSON.parse((await bench.run(['functions', 'invoke', slug, '-d', `@${file}`])).stdout), { a: 1 });
  t.is((await bench.run(['functions', 'invoke', slug, '-d', '-'], { input: '[1]' })).stdout.trim(), '[\n  1\n]');
  for (const bad of ['', 'text', '@nowhere.json']) {
    const { code } = await bench.run(['functions', 'invoke', slug, '-d', bad]);
    t.is(code, bad === '@nowhere.json' ? 1 : 2, bad);
  }
});

test('a run that fails ends with 1, and what it says cannot steer the terminal', async (t) => {
  const { bench, user, project } = await open();
  const code = `export const handler = () => { console.log('\\u001b[2Jgone \\u202e'); throw new Error('\\u001b]0;title\\u0007broken'); };`;
  const { slug } = await platform().client.deploy(user, project, code);
  const failed = await bench.run(['functions', 'invoke', slug]);
  t.is(failed.code, 1);
  t.regex(failed.stderr, /broken/);
  for (const character of ['\u001B', '\u0007', '\u202E']) t.false((failed.stderr + failed.stdout).includes(character));
  const { value } = await bench.json(['functions', 'invoke', slug]);
  t.is(value.status, 'error');
});

test('logs are printed, the newest last', async (t) => {
  const { bench, user, project } = await open();
  const fn = await platform().client.deploy(
    user,
    project,
    `export const handler = (n) => { console.log('line', n); console.error('bad', n); };`,
  );
  for (const n of [1, 2]) await bench.run(['functions', 'invoke', fn.slug, '-d', String(n)]);
  const all = await bench.run(['functions', 'logs', fn.slug]);
  t.is(all.code, 0, all.stderr);
  t.true(all.stdout.indexOf('line 1') < all.stdout.indexOf('line 2'));
  const errors = await bench.run(['logs', '--level', 'error', '--since', '1h', '--function', fn.slug]);
  t.false(errors.stdout.includes('line'));
  t.true(errors.stdout.includes('bad 2'));
  for (const bad of [
    ['--level', 'loud'],
    ['--since', 'soon'],
    ['--limit', '0'],
    ['--limit', 'x'],
  ]) {
    t.is((await bench.run(['logs', ...bad])).code, 2, bad.join(' '));
  }
});

test('logs are followed until Ctrl-C, which ends with 130', async (t) => {
  const { bench, user, project } = await open();
  const fn = await platform().client.deploy(user, project, `export const handler = (n) => console.log('live', n);`);
  let called = false;
  const followed = await bench.run(['logs', '-f'], {
    onOutput: (text, kill) => {
      if (text.includes('Waiting') && !called) {
        called = true;
        // The stream is opened after these words: calls are made until a line comes.
        void (async () => {
          for (let n = 0; n < 100 && called; n += 1) await platform().client.invoke(user, project, fn, n);
        })();
      }
      if (text.includes('live')) {
        called = false;
        kill('SIGINT');
      }
    },
  });
  t.is(followed.code, 130);
  t.regex(followed.stdout, /live/);
});

test('deleting asks, and only --yes goes on where nobody can be asked', async (t) => {
  const { bench, user, project } = await open();
  const { slug } = await platform().client.deploy(user, project, 'export const handler = () => 1;');
  const refused = await bench.run(['functions', 'delete', slug]);
  t.is(refused.code, 2);
  t.regex(refused.stderr, /--yes/);
  t.is((await bench.run(['functions', 'delete', slug, '--yes'])).code, 0);
  t.is((await bench.run(['functions', 'delete', slug, '--yes'])).code, 4);
});

test('functions without a folder are deleted by --prune alone', async (t) => {
  const { bench, user, project } = await open();
  const { slug } = await platform().client.deploy(user, project, 'export const handler = () => 1;');
  await bench.run(['functions', 'new', 'keep']);
  t.deepEqual((await bench.json(['functions', 'deploy'])).value.deleted, []);
  t.deepEqual((await bench.json(['functions', 'deploy', '--prune', '--yes'])).value.deleted, [slug]);
  t.is((await bench.run(['functions', 'deploy', 'keep', '--prune'])).code, 2);
});

test('a name that is not there is answered by one that is', async (t) => {
  const { bench } = await open();
  await bench.run(['functions', 'new', 'greet-guests']);
  await bench.run(['functions', 'deploy']);
  const called = await bench.run(['functions', 'invoke', 'greet-gests']);
  t.is(called.code, 4);
  t.regex(called.stderr, /Did you mean greet-guests\?/);
  t.regex((await bench.run(['functions', 'deploy', 'greet-gest'])).stderr, /Did you mean greet-guests\?/);
});

test('folders that are no function are refused before anything is deployed', async (t) => {
  const { bench } = await open();
  await bench.run(['functions', 'new', 'good']);
  const bad: readonly (readonly [string, string, RegExp])[] = [
    ['plinth/functions/empty/readme.txt', 'x', /no file to begin with/],
    ['plinth/functions/Upper/index.js', '', /cannot be a function/],
    ['plinth/functions/odd/plinth.json', '{"memory":1}', /unknown setting/],
    ['plinth/functions/typed/plinth.json', '{"timeout_ms":"1"}', /must be a number/],
    ['plinth/functions/torn/plinth.json', '{', /not a JSON object/],
  ];
  for (const [file, text, expected] of bad) {
    await bench.write(file, text);
    const slug = file.split('/')[2] ?? '';
    const answer = await bench.run(['functions', 'deploy', 'good', slug]);
    t.not(answer.code, 0, file);
    t.regex(answer.stderr, expected);
  }
  await bench.write('plinth/functions/binary/index.js', Buffer.from([0xff, 0xfe, 0x00]));
  t.regex((await bench.run(['functions', 'deploy', 'binary'])).stderr, /not text in UTF-8/);
  t.deepEqual((await bench.json(['functions', 'list'])).value, []);
  t.is((await bench.run(['functions', 'new', 'good'])).code, 5);
  t.is((await bench.run(['functions', 'new', 'x', '--language', 'cobol'])).code, 2);
});

test('a function with a mistake is refused with its place', async (t) => {
  const { bench } = await open();
  await bench.write('plinth/functions/broken/index.ts', 'export const handler = () => {\n  return (1;\n};\n');
  const answer = await bench.run(['functions', 'deploy']);
  t.is(answer.code, 1);
  t.regex(answer.stderr, /broken: /);
  t.regex(answer.stderr, /index\.ts/);
});
