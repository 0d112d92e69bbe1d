import { readFile } from 'node:fs/promises';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { type Answer, uniqueName } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { shared: true });

const scene = async () => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const functions = `/projects/${project.id}/functions`;
  const send = (method: string, to: string, body: object): Promise<Answer> =>
    client.call(method, to, { token: user.token, body });
  return {
    deploy: (files: unknown, fields: object = {}): Promise<Answer> =>
      send('POST', functions, { name: uniqueName('fn'), language: 'javascript', files, ...fields }),
    change: (id: string, fields: object): Promise<Answer> => send('PATCH', `${functions}/${id}`, fields),
    post: (id: string, below: string): Promise<Answer> => send('POST', `${functions}/${id}${below}`, {}),
    get: (id: string, below = ''): Promise<Answer> =>
      client.call('GET', `${functions}/${id}${below}`, { token: user.token }),
    invoke: async (id: string, payload: unknown = null): Promise<Answer['body']> =>
      (await client.invoke(user, project, { id, slug: '' }, payload)).body,
  };
};

const isRefused = (t: ExecutionContext, answer: Answer, path: string, message: RegExp): void => {
  t.is(answer.status, 400, answer.text);
  t.is(answer.body.code, 'validation_failed');
  t.is(answer.body.details[0].path, path);
  t.regex(answer.body.details[0].message, message);
};

const shop = {
  'index.ts': `import { total } from './lib/total.js';
import prices from './prices.json';
import page from './page.html';
import own from './lib/total.ts' with { type: 'text' };

export const handler = ({ fail }: { fail?: boolean }) => {
  return { total: total(prices, fail), page, own: own.length };
};`,
  'lib/total.ts': `// The sum.
import { add } from '../math';

export function total(prices: Record<string, number>, fail?: boolean): number {
  if (fail) throw new RangeError('too much');
  return add(...Object.values(prices));
}
`,
  'math/index.js': 'const sum = require("./sum");\n\n\nexports.add = (...n) => sum(n);',
  'math/sum.cjs':
    'module.exports = (n) => n.map((x) => {\n  if (x < 0) console.log(new Error("below").stack);\n  return x; }).reduce((a, b) => a + b);',
  'prices.json': '{"a": 1, "b": -2}',
  'page.html': '<p>Hello',
};

test('files of every kind become one function, and its stacks name files and lines', async (t) => {
  const { deploy, invoke, get } = await scene();
  const deployed = await deploy(shop);
  t.is(deployed.status, 201, deployed.text);
  t.is(deployed.body.entrypoint, 'index.ts');
  const run = await invoke(deployed.body.id, {});
  t.deepEqual(run.result, { total: -1, page: '<p>Hello', own: shop['lib/total.ts'].length });
  t.regex(run.logs[0].message, /Error: below\n    at .*math\/sum\.cjs:2:26.*\n.*\n    at .*math\/index\.js:4:25/s);
  const { error } = await invoke(deployed.body.id, { fail: true });
  t.regex(
    error.stack,
    /^RangeError: too much\n    at total \(lib\/total\.ts:5:19\)\n    at .*handler \(index\.ts:7:19\)$/m,
  );
  t.deepEqual((await get(deployed.body.id)).body.files, shop);
});

test('a stack names the files of real bundles with top-level await', async (t) => {
  const { deploy, invoke } = await scene();
  const { body } = await deploy(
    {
      'app.mjs': 'import { boom } from "./deep/boom.mjs";\nawait null;\n\nexport const main = () => boom();',
      'deep/boom.mjs': '\n\nexport function boom() {\n  null.x; }',
    },
    { entrypoint: 'app.mjs', entry_point: 'main' },
  );
  t.regex((await invoke(body.id)).error.stack, /at boom \(deep\/boom\.mjs:4:\d+\)\n.*app\.mjs:4:/);
});

test('Python takes files and packages: imports, data beside the code, and stacks with their lines', async (t) => {
  const { deploy, invoke } = await scene();
  const files = {
    'main.py': `import json
from shop import prices
from shop.tax.rates import of
import plain.inner

def handler(payload, sdk):
    with open('shop/names.json') as file:
        names = json.load(file)
    import importlib.resources, pkgutil
    return {
        'sum': prices.total() + of(payload['land']),
        'names': names,
        'resource': importlib.resources.files('shop').joinpath('names.json').read_text(),
        'data': pkgutil.get_data('shop', 'names.json').decode(),
        'inner': plain.inner.__name__,
        'file': __file__.rsplit('/', 1)[1],
    }
`,
    'shop/__init__.py': '',
    'shop/prices.py': 'from . import tax\n\ndef total():\n    return 2\n',
    'shop/tax/__init__.py': 'base = 1\n',
    'shop/tax/rates.py': 'from . import base\n\ndef of(land):\n    return base / land\n',
    'shop/names.json': '["ä"]',
    'shop/old.py': 'print "of another Python"\n',
    'plain/inner.py': '',
  };
  const { status, body, text } = await deploy(files, { language: 'python' });
  t.is(status, 201, text);
  const expected = { sum: 3, names: ['ä'], resource: '["ä"]', data: '["ä"]', inner: 'plain.inner', file: 'main.py' };
  t.deepEqual((await invoke(body.id, { land: 1 })).result, expected);
  t.deepEqual((await invoke(body.id, { land: 1 })).result, expected);
  const { error } = await invoke(body.id, { land: 0 });
  t.is(error.name, 'ZeroDivisionError');
  t.regex(
    error.stack,
    /File "main\.py", line 11, in handler\n.*\n[^]*File "shop\/tax\/rates\.py", line 4, in of\n    return base \/ land/,
  );
});

test('a run of Python changes no file and no module for the next one', async (t) => {
  const { deploy, invoke } = await scene();
  const { body } = await deploy(
    {
      'main.py': `import sys
from lib import state

def handler(payload, sdk):
    before = (open('data.txt').read(), state.seen)
    open('data.txt', 'w').write('changed')
    open('late.py', 'w').write('x = 1')
    state.seen = True
    sys.meta_path.clear()
    return before
`,
      'lib/state.py': 'seen = False\n',
      'data.txt': 'first',
    },
    { language: 'python' },
  );
  for (let run = 0; run < 3; run += 1) t.deepEqual((await invoke(body.id)).result, ['first', false]);
});

test('versions, rollback and changes keep files and code apart', async (t) => {
  const { deploy, change, post, get, invoke } = await scene();
  const first = { 'index.js': 'export const handler = () => 1;\nexport const other = () => 11;' };
  const { body: fn } = await deploy(first);
  t.is((await change(fn.id, { entry_point: 'nope' })).status, 400);
  t.is((await change(fn.id, { entry_point: 'other' })).status, 200);
  t.is((await invoke(fn.id)).result, 11);
  t.is((await change(fn.id, { code: 'export const other = () => 2;' })).status, 200);
  const one = (await get(fn.id)).body;
  t.deepEqual([one.files, one.entrypoint, one.code], [null, null, 'export const other = () => 2;']);
  t.is((await change(fn.id, { timeout_ms: 5000, files: { 'a.py': '' } })).status, 400);
  t.is((await post(fn.id, '/versions/1/rollback')).status, 200);
  t.is((await invoke(fn.id)).result, 1);
  const back = (await get(fn.id)).body;
  t.deepEqual([back.files, back.entrypoint, back.code, back.version], [first, 'index.js', '', 4]);
  const { versions, total } = (await get(fn.id, '/versions')).body;
  t.is(total, 3);
  t.deepEqual(
    versions.map(({ files }: { files: unknown }) => files),
    [null, first, first],
  );
  isRefused(t, await change(fn.id, { code: 'x', files: first }), 'files', /beside code/);
  isRefused(t, await change(fn.id, { entrypoint: 'index.js' }), 'entrypoint', /needs files/);
});

test('paths that are no names of files are refused, and so are two that are one on some machines', async (t) => {
  const { deploy } = await scene();
  const entry = { 'index.js': 'export const handler = () => 1' };
  const bad = ['../a.js', 'a/../../b.js', '/etc/passwd', './a.js', 'a//b.js', 'a/', '', 'a\\b.js', 'C:/a.js', 'a\0.js'];
  for (const path of [...bad, 'a\n.js', 'x'.repeat(201), 'a/__proto__/b.js'])
    isRefused(t, await deploy({ ...entry, [path]: '' }), `files.${path.slice(0, 200)}`, /path/);
  isRefused(t, await deploy({ ...entry, 'INDEX.js': '' }), 'files.INDEX.js', /same path as index\.js/);
  isRefused(t, await deploy({ ...entry, 'a\u0308.js': '', 'ä.js': '' }), 'files.ä.js', /same path/);
  isRefused(t, await deploy({ ...entry, 'index.js/a.js': '' }), 'files.index.js', /file and a folder/);
  isRefused(t, await deploy({ ...entry, 'a.js': 1 }), 'files.a.js', /must be text/);
  isRefused(t, await deploy({ ...entry, 'a.js': 'a\0' }), 'files.a.js', /NUL/);
  isRefused(t, await deploy({ ...entry, 'a.js': '\ud800' }), 'files.a.js', /Unicode/);
  for (const files of [[], 'x', null, 7]) isRefused(t, await deploy(files), 'files', /must be an object/);
  isRefused(t, await deploy({}), 'files', /at least one/);
  const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`f${n}.js`, '']));
  isRefused(t, await deploy({ ...entry, ...many }), 'files', /at most 2000 files/);
  isRefused(t, await deploy({ 'a.js': '' }), 'entrypoint', /index\.ts/);
  isRefused(t, await deploy(entry, { entrypoint: 'b.js' }), 'entrypoint', /not the path of one/);
  isRefused(t, await deploy({ 'a.txt': '' }, { entrypoint: 'a.txt' }), 'entrypoint', /javascript/);
  isRefused(
    t,
    await deploy({ 'my-main.py': '' }, { language: 'python', entrypoint: 'my-main.py' }),
    'entrypoint',
    /python/,
  );
});

test('what is imported and not sent is named, with the command that brings packages', async (t) => {
  const { deploy } = await scene();
  const from = (code: string): Promise<Answer> => deploy({ 'index.ts': 'export * from "./lib/a"', 'lib/a.ts': code });
  const cases = {
    'import x from "left-pad"; export const handler = x': [
      /lib\/a\.ts imports "left-pad"/,
      /`plinth functions deploy`/,
    ],
    'import { readFileSync } from "node:fs"; export const handler = readFileSync': [/"node:fs"/, /do not exist/],
    'import x from "../../../../etc/passwd"; export const handler = x': [/etc\/passwd/, /every file/],
    'import x from "/etc/passwd"; export const handler = x': [/etc\/passwd/, /plinth functions deploy/],
    'import x from "file:///etc/passwd" with { type: "text" }; export const handler = x': [/file:/, /plinth/],
    'export const handler = () => require("./b")': [/"\.\/b"/, /every file/],
    'import x from "data:text/javascript,export default 1"; export const handler = x': [/data:/, /plinth/],
    'import x from "../package.json"; export const handler = x': [/package\.json/, /every file/],
  } as const;
  for (const [code, [message, hint]] of Object.entries(cases)) {
    const { status, body } = await from(code);
    t.is(status, 400, code);
    t.is(body.code, 'import_not_bundled', code);
    t.regex(body.message, message);
    t.regex(body.hint, hint);
  }
});

test('files cannot tell the bundler to read the machine, nor to run anything', async (t) => {
  const { deploy, invoke } = await scene();
  const { body: fn, text } = await deploy(
    {
      'index.tsx': `/** @jsx make */
/// <reference path="/etc/passwd" />
import a from './a.js';
const make = (...all: unknown[]) => all;
export const handler = () => [a, <b>1</b>, typeof require];
//# sourceMappingURL=file:///etc/passwd`,
      'a.js': 'export default 1;\n//# sourceMappingURL=/etc/passwd',
      'tsconfig.json': '{"extends": "/etc/passwd", "compilerOptions": {"paths": {"*": ["/etc/*"]}}}',
      'package.json': '{"main": "/etc/passwd", "sideEffects": false, "imports": {"#x": "/etc/passwd"}}',
      'esbuild.config.js': 'process.exit(1)',
    },
    { entrypoint: 'index.tsx' },
  );
  t.truthy(fn.id, text);
  t.deepEqual((await invoke(fn.id)).result, [1, ['b', null, '1'], 'function']);
  const attributes = await deploy({
    'index.js': 'import a from "./a.bin" with { type: "file" }; export const handler = () => a',
    'a.bin': '',
  });
  isRefused(t, attributes, 'files.index.js', /not supported/);
});

test('hostile files are refused in bounded time, and the next deploy goes on', async (t) => {
  const { deploy, invoke } = await scene();
  const long = { 'index.js': `export const handler = () => "${'x'.repeat(1100 * 1024)}".length` };
  isRefused(t, await deploy(long), 'files', /longer than \d+ bytes when they are bundled/);
  const large = { 'index.js': 'export const handler = () => 1', 'a.txt': 'x'.repeat(11 * 1024 * 1024) };
  isRefused(t, await deploy(large), 'files', /longer than 10000000 bytes/);
  const doubling = Array.from({ length: 40 }, (_, n) => `const e${n + 1} = e${n} + e${n};`).join('');
  const bomb = { 'index.ts': `const e0 = "${'x'.repeat(64)}";${doubling}export const handler = () => e3.length;` };
  const bombed = await deploy(bomb);
  t.true([201, 400].includes(bombed.status), bombed.text);
  const cycle = Object.fromEntries(
    Array.from({ length: 1999 }, (_, n) => [
      `m${n}.js`,
      `import "./m${(n + 1) % 1999}.js"; export const v${n} = ${n};`,
    ]),
  );
  const { body: fn, text } = await deploy({
    ...cycle,
    'index.js': 'export { v7 as value } from "./m7.js"; import { v7 } from "./m7.js"; export const handler = () => v7',
  });
  t.is((await invoke(fn.id)).result, 7, text);
  isRefused(
    t,
    await deploy({ 'index.js': 'import "./b.js"', 'b.js': '\n(('.repeat(9) }),
    'files.b.js',
    /line 10, column/,
  );
  isRefused(t, await deploy({ 'index.js': 'import "./b.json"', 'b.json': '{' }), 'files.b.json', /line 1/);
  isRefused(
    t,
    await deploy({ 'main.py': 'def handler(p, s):\n  return 1', 'b.py': 'x = (' }, { language: 'python' }),
    'files.b.py',
    /line 1, column 5/,
  );
});

test('the example of the guide answers what its comment says', async (t) => {
  const { deploy, invoke } = await scene();
  const folder = path.join(import.meta.dirname, '../../docs/functions/files');
  const names = ['index.ts', 'price.ts', 'rates.json', 'letter.txt'];
  const texts = await Promise.all(names.map((name) => readFile(path.join(folder, name), 'utf8')));
  const { body } = await deploy(Object.fromEntries(names.map((name, index) => [name, texts[index]])));
  const field = (name: string): unknown => JSON.parse(new RegExp(`@${name} (.*)`).exec(texts[0] ?? '')?.[1] ?? '');
  t.deepEqual((await invoke(body.id, field('payload'))).result, field('answer'));
});
