import { runInNewContext } from 'node:vm';
import test, { type ExecutionContext } from 'ava';
import { compileFunction } from '#domain/functions/compile.ts';
import { ServiceError } from '#lib/errors.ts';

interface Exports {
  handler(this: unknown, ...args: unknown[]): unknown;
  default(...args: unknown[]): unknown;
}

/** Loads compiled code as the runtime does. */
async function load(source: string): Promise<Exports> {
  const { code } = await compileFunction(source);
  const module = { exports: {} as Exports };
  const wrapper = runInNewContext(
    `(function (exports, require, module) {${code}\n})`,
    {},
    { filename: 'function.js' },
  ) as (...args: unknown[]) => unknown;
  await wrapper.call(module.exports, module.exports, undefined, module);
  return module.exports;
}

/** The lines that `at` names, from the top of a stack. */
async function linesThrown(source: string): Promise<string[]> {
  const loaded = await load(source);
  try {
    await loaded.handler();
    return [];
  } catch (error) {
    return [...String((error as Error).stack).matchAll(/function\.js:(\d+:\d+)/g)].map(([, place]) => place ?? '');
  }
}

const refusal = async (t: ExecutionContext, source: string): Promise<ServiceError> =>
  t.throwsAsync(compileFunction(source), { instanceOf: ServiceError });

test('ES modules, CommonJS and TypeScript become CommonJS', async (t) => {
  t.is((await load('export const handler = () => 1')).handler(), 1);
  t.is((await load('export default () => 2')).default(), 2);
  t.is((await load('export { inner as handler }; function inner() { return 3 }')).handler(), 3);
  t.is((await load('exports.handler = () => 4')).handler(), 4);
  t.is(((await load('module.exports = () => 5')) as unknown as () => number)(), 5);
  const typescript = `enum Size { Small = 6 } interface P { n?: number }
    export async function handler<T extends P>(p: T): Promise<number> { return (p?.n as number) ?? Size.Small! satisfies number }`;
  t.is(await (await load(typescript)).handler({}), 6);
});

test('an ES module is strict code, CommonJS is what it says it is', async (t) => {
  t.is((await load('export function handler() { return this === undefined }')).handler.call(undefined), true);
  t.is((await load(`export const handler = () => { ${assigning} }`)).handler(), 'ReferenceError');
  t.is((await load(`exports.handler = () => { ${assigning} }`)).handler(), 'assigned');
});

const assigning = `try { undeclared = 1; return 'assigned' } catch (error) { return error.name }`;

test('a stack names the lines and columns of the source', async (t) => {
  const source = `// a comment
interface Payload { n: number }

/** documentation
 *  of two lines */
export async function handler(payload?: Payload): Promise<number> {
  const text = \`a\\nb\\nc \${'x'}
    real line\`;

  if (text)
    deeper({
      a: 1, // comment
      b: [text]
        .map((x: string) => x)
        .filter(Boolean),
    });
  return 1;
}

type Unused = string;
const deeper = (value: unknown) => {
  /* one */ throw new TypeError('here');
};
`;
  t.deepEqual(await linesThrown(source), ['22:19', '11:5']);
});

test('lines hold after everything that is printed otherwise than it was written', async (t) => {
  const before = [
    'const a = `\\n\\n\\n`;',
    'const b = `one\n\ntwo ${1}\n`;',
    'const tag = (s: TemplateStringsArray) => s.raw[0]; const c = tag`x\\n\ny`;',
    'let x = 1\nlet y = 2\n;[x, y] = [y, x]\nx++\ny--\n++x\nif (x) { x } else\n  y\nswitch (x) { case 1: break\n default: x }',
    'for (;;) { break }\nlabel: do { continue label } while (false)',
    'class K { #p = 1; static { this.name; } get p() { return this.#p } }',
    'const re = /[{;(]\\/x/g, quote = "{;(", f = function* () { yield\n 1 }',
    'const g = async () => { await null; return (\n  1\n) }',
    'const a = 1, o = { if: 1, "a-b": 2, [a]: 3, async *m() {}, ...{ } }',
    'const big = 1_000_000n, hex = 0xff, arrow = (z: number) => ({ z }), t2 = big ? hex : arrow',
    'const é = "\u{1F600}"; namespace N { export const n = 1 }',
    'abstract class A { constructor(private readonly p: number) {} declare q: string }',
  ];
  for (const code of before) {
    const lines = code.split('\n').length;
    t.deepEqual(
      await linesThrown(`${code}\nexport function handler() {\n  throw new Error('x') }`),
      [`${lines + 2}:9`],
      code,
    );
  }
});

test('code keeps its meaning: what it prints is the same with and without places', async (t) => {
  const source = `export const handler = () => {
    const out: unknown[] = [];
    const f = () => { return (
      1 + 2
    ) };
    const s = \`a\\n\${[1, 2]
      .map((n) => \`<\${n}>
      \`)
      .join('\\n')}\`;
    let i = 0
    i
    ++
    i
    out.push(f(), s, i, String.raw\`x\\n
y\`);
    return JSON.stringify(out);
  }`;
  t.is((await load(source)).handler(), JSON.stringify([3, 'a\n<1>\n      \n<2>\n      ', 1, 'x\\n\ny']));
});

test('a static import is refused by name, with the command that bundles', async (t) => {
  for (const source of [
    "import _ from 'lodash'; _()",
    "export * from 'lodash'",
    "import 'lodash'",
    "import * as l from 'lodash'; export const handler = l",
  ]) {
    const error = await refusal(t, source);
    t.is(error.code, 'import_not_bundled');
    t.regex(error.message, /"lodash"/);
    t.regex(error.hint ?? '', /npx esbuild entry\.js --bundle --platform=neutral --format=esm --outfile=function\.js/);
  }
});

test('what the code asks for at run time is named, types are not', async (t) => {
  const { imports } = await compileFunction(
    "import type { A } from 'types'; import { B } from 'also-types'; const x: A | B = await0(); const f = () => require('one'), g = () => import('two'), h = () => import('two')",
  );
  t.deepEqual(imports, ['one', 'two']);
});

test('import() of what is not there rejects and does not reach a loader', async (t) => {
  const { code } = await compileFunction("export const handler = () => import('node:fs')");
  t.notRegex(code, /\bimport\(/);
});

test('code that does not parse is refused with line and column', async (t) => {
  const error = await refusal(t, 'export const a = 1;\n const x = {;');
  t.is(error.code, 'validation_failed');
  t.deepEqual(error.details, [{ path: 'code', message: 'line 2, column 13: Expected identifier but found ";"' }]);
  for (const constant of ['const a = 1; a = 2', 'const a = await 1; a = 2'])
    t.regex(JSON.stringify((await refusal(t, constant)).details), /line 1, column \d+: .*constant/);
  t.regex(JSON.stringify((await refusal(t, 'await 1;\nreturn 2')).details), /line 2, column 1: /);
});

test('a module with top-level await is compiled, whatever it names its exports and its own variables', async (t) => {
  t.is((await load('const one: number = await Promise.resolve(1); export const handler = () => one')).handler(), 1);
  t.is(await (await load('export default async () => 2; for await (const x of [1]) x;')).default(), 2);
  t.is(
    (
      await load('const module = await 3; export { f as handler, f as "a }b" }; function f() { return module }')
    ).handler(),
    3,
  );
  t.is((await load('await null; exports.handler = () => 4')).handler(), 4);
  t.is((await load('export let handler; await null; handler = () => import.meta.url ?? 5')).handler(), 5);
  t.is((await load(`await null; export const handler = () => { ${assigning} }`)).handler(), 'ReferenceError');
});

test('a stack names the lines of a module with top-level await', async (t) => {
  const source = 'interface A {}\n\nconst a = await 1;\nexport function handler() {\n  throw new Error(String(a)) }';
  t.deepEqual(await linesThrown(source), ['5:9']);
});

const filler = (length: number): string => `exports.handler = () => 1;//${'x'.repeat(length - 28)}`;

test('code over 1 MiB is refused, 1 MiB passes', async (t) => {
  t.is((await refusal(t, filler(1024 * 1024 + 1))).code, 'validation_failed');
  t.regex((await compileFunction(filler(1024 * 1024))).code, /exports\.handler/);
});

test('nothing of the file system is read, whatever the code names', async (t) => {
  const error = await refusal(
    t,
    "import data from './package.json'; import self from '../../package.json' with { type: 'json' }; export { data, self }",
  );
  t.is(error.code, 'import_not_bundled');
  t.deepEqual(
    (
      await compileFunction(
        '/// <reference path="/etc/passwd" />\n//# sourceMappingURL=/etc/passwd\nexports.handler = 1',
      )
    ).imports,
    [],
  );
});

test('compiled code is about as long as its source', async (t) => {
  const source = Array.from(
    { length: 500 },
    (_, n) => `export function f${n}(a, b) {\n  if (a) {\n    return b;\n  }\n}\n`,
  ).join('\n');
  const { code } = await compileFunction(source);
  t.true(code.length < source.length * 2 + 4096, `${code.length} of ${source.length}`);
});
