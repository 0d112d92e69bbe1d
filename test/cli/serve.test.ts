import { spawnSync } from 'node:child_process';
import { rename, rm } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import { besideSlug } from '#cli/commands/functions/serve.ts';
import { openLinked, useWorkbenches } from '#test/support/cli.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);
const kept = useWorkbenches(test);

const open = async () => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user);
  const bench = await kept(openLinked(platform(), user, project));
  const functions = async (): Promise<string[]> => {
    const { body } = await platform().client.call('GET', `/projects/${project.id}/functions`, { token: user.token });
    return body.functions.map(({ slug }: { slug: string }) => slug);
  };
  const call = async (slug: string) =>
    (await platform().client.call('POST', `/api/functions/${slug}`, { key: project.key, body: {} })).body;
  return { user, project, bench, functions, call };
};

test('each change of a folder is served under a name of its own, with its log, until Ctrl-C', async (t) => {
  const { bench, functions, call } = await open();
  await bench.write(
    'plinth/functions/greet/index.js',
    `export const handler = () => { console.log('one'); return 1; };`,
  );
  let output = '';
  let kill: ((signal: NodeJS.Signals) => void) | undefined;
  const served = bench.run(['functions', 'serve', 'greet'], {
    onOutput: (text, end) => {
      output += text;
      kill = end;
    },
  });
  await until(() => Promise.resolve(output.includes('Ctrl-C ends it')));
  t.regex(output, /functions\/v1\/greet-dev/);
  t.deepEqual(await functions(), ['greet-dev']);
  // A line counts once the log is followed.
  await until(async () => (await call('greet-dev')) === 1 && output.includes('one'));
  await bench.write('plinth/functions/greet/index.js', `import './broken`);
  await until(() => Promise.resolve(/plinth: /.test(output)));
  await bench.write('plinth/functions/greet/index.js', `export const handler = () => 2;`);
  await until(async () => (await call('greet-dev')) === 2);
  kill?.('SIGINT');
  t.is((await served).code, 130);
  t.deepEqual(await functions(), [], 'nothing is left there');
});

test('a folder that is not there is said so, and names stay short enough', async (t) => {
  const { bench } = await open();
  await bench.write('plinth/functions/greet/index.js', 'export const handler = () => 1;');
  const wrong = await bench.run(['functions', 'serve', 'gret']);
  t.is(wrong.code, 4);
  t.regex(wrong.stderr, /greet/);
  t.is((await bench.run(['functions', 'serve', ''])).code, 2);
  t.is(besideSlug('a'.repeat(63), 'dev').length, 63);
  t.is(besideSlug('greet', 'dev'), 'greet-dev');
});

const aTest = (expected: string): string => `
import assert from 'node:assert';
import test from 'node:test';
interface Answer { readonly result: unknown }
declare const invoke: (payload: unknown) => Promise<Answer>;
test('it doubles', async () => {
  const { result }: Answer = await invoke({ n: 21 });
  assert.equal(result, ${expected});
});`;

test('tests beside a function run against what is in its folder, and leave nothing', async (t) => {
  const { bench, functions } = await open();
  await bench.write('plinth/functions/double/index.ts', 'export const handler = ({ n }: { n: number }) => n * 2;');
  await bench.write('plinth/functions/other/index.js', 'export const handler = () => 1;');
  const none = await bench.run(['functions', 'test']);
  t.is(none.code, 2);
  t.regex(none.stderr, /\*\.test\.ts/);
  const file = await bench.write('plinth/functions/double/sub/double.test.ts', aTest('42'));
  const good = await bench.json(['functions', 'test']);
  t.is(good.code, 0, good.stderr);
  t.deepEqual(good.value, [{ slug: 'double', passed: true }]);
  await bench.write(path.relative(bench.folder, file), aTest('43'));
  const bad = await bench.run(['functions', 'test', 'double']);
  t.is(bad.code, 1);
  t.regex(bad.stderr, /it doubles/);
  t.regex(bad.stderr, /42 == 43/);
  t.is((await bench.run(['functions', 'test', 'other'])).code, 4);
  t.deepEqual(await functions(), []);
  await rm(file);
});

const makeWheel = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1] + '/tiny-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('tiny/__init__.py', 'from .sums import twice\\n')
    wheel.writestr('tiny/sums.py', 'def twice(n):\\n    return n * 2\\n')
    if len(sys.argv) > 2: wheel.writestr('tiny/fast.so', 'x')
    wheel.writestr('tiny-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')
    wheel.writestr('tiny-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('tiny-1.0.dist-info/RECORD', '')
`;

const hasPip = spawnSync('python3', ['-m', 'pip', '--version']).status === 0;

(hasPip ? test : test.skip)('packages of Python come along, and those that were compiled are refused', async (t) => {
  const { bench } = await open();
  const folder = path.dirname(
    await bench.write(
      'plinth/functions/sum/main.py',
      'import tiny\ndef handler(payload, sdk):\n    return tiny.twice(payload["n"])\n',
    ),
  );
  await bench.write('plinth/functions/sum/requirements.txt', './tiny-1.0-py3-none-any.whl\n');
  t.is(spawnSync('python3', ['-c', makeWheel, folder]).status, 0);
  await rename(path.join(folder, 'tiny-1.0-py3-none-any.whl'), path.join(bench.folder, 'tiny-1.0-py3-none-any.whl'));
  await bench.write('plinth/functions/sum/requirements.txt', '../../../tiny-1.0-py3-none-any.whl\n');
  const deployed = await bench.run(['functions', 'deploy', 'sum']);
  t.is(deployed.code, 0, deployed.stderr);
  const { value } = await bench.json(['functions', 'invoke', 'sum', '--payload', '{"n":21}']);
  t.is(value.result, 42, JSON.stringify(value));
  t.deepEqual((await bench.json(['functions', 'deploy', 'sum'])).value.deployed[0].outcome, 'unchanged');
  t.is(spawnSync('python3', ['-c', makeWheel, bench.folder, 'compiled']).status, 0);
  await bench.write('plinth/functions/sum/requirements.txt', '../../../tiny-1.0-py3-none-any.whl # compiled\n');
  const refused = await bench.run(['functions', 'deploy', 'sum']);
  t.is(refused.code, 1);
  t.regex(refused.stderr, /tiny\/fast\.so is compiled/);
  await bench.write('plinth/functions/sum/requirements.txt', './nowhere-1.0-py3-none-any.whl\n');
  const missing = await bench.run(['functions', 'deploy', 'sum']);
  t.is(missing.code, 1);
  t.regex(missing.stderr, /pip could not install/);
});
