import test, { type ExecutionContext } from 'ava';
import { createCompiler } from '#domain/functions/compiler.ts';
import { createPythonChecker } from '#domain/functions/python.ts';
import { type ErrorCode, ServiceError } from '#lib/errors.ts';

const refused = async (t: ExecutionContext, compiling: Promise<string>, code: ErrorCode): Promise<void> => {
  const error = await t.throwsAsync(compiling, { instanceOf: ServiceError });
  t.is(error?.code, code);
};

const withCompiler = test.macro({
  exec: async (t, hostile: string) => {
    const compiler = createCompiler();
    t.teardown(compiler.close);
    await refused(t, compiler.compile(hostile), 'validation_failed');
    t.regex(await compiler.compile('export const handler = () => 1'), /handler/);
  },
  title: (what) => `${what} is refused, and the next deploy works`,
});

test('code nested a million deep', withCompiler, '['.repeat(1_000_000));
test('code that grows a thousandfold', withCompiler, `enum E{x="${'A'.repeat(20_000)}"}${'[E.x,'.repeat(1500)}`);
test(
  'code that doubles thirty times',
  withCompiler,
  `enum E{a0="${'A'.repeat(100)}",${Array.from({ length: 30 }, (_, i) => `a${i + 1}=a${i}+a${i}`).join()}}exports.handler=()=>E.a30`,
);

test('a source map in the code is not followed', async (t) => {
  const compiler = createCompiler();
  t.teardown(compiler.close);
  const map = { version: 3, sources: ['a.ts'], names: [], mappings: 'AAggi6+XA' };
  const comment = `//# sourceMappingURL=data:application/json;base64,${Buffer.from(JSON.stringify(map)).toString('base64')}`;
  const compiled = await compiler.compile(`export const handler=()=>{return 1};\n${comment}`);
  t.true(compiled.length < 2000);
});

test('what the code lacks is said as without the process between', async (t) => {
  const compiler = createCompiler();
  t.teardown(compiler.close);
  await refused(t, compiler.compile('import x from "lodash"; export const handler = x'), 'import_not_bundled');
  await refused(t, compiler.compile('export const = 1'), 'validation_failed');
});

test('deploys at once are each answered with their own code', async (t) => {
  const compiler = createCompiler();
  t.teardown(compiler.close);
  const names = Array.from({ length: 10 }, (_, i) => `handler${i}`);
  const compiled = await Promise.all(names.map((name) => compiler.compile(`export const ${name} = () => 1`)));
  compiled.forEach((code, i) => t.true(code.includes(`handler${i}`)));
});

const wide = `export const handler = () => [${'1+'.repeat(100_000)}1];`;

test('a deploy that only the wall clock stopped is 503 with a time to come back, and the next one works', async (t) => {
  const compiler = createCompiler({ maxCpuMs: 60_000, maxMs: 1 });
  t.teardown(compiler.close);
  const error = await t.throwsAsync(compiler.compile(wide), { instanceOf: ServiceError });
  t.is(error?.code, 'overloaded');
  t.is(error?.status, 503);
  t.truthy(error?.headers['Retry-After']);
});

test('a deploy that takes too much processor time is refused for good', async (t) => {
  const compiler = createCompiler({ maxCpuMs: -1, maxMs: 600_000 });
  t.teardown(compiler.close);
  await refused(t, compiler.compile(wide), 'validation_failed');
});

test('code of Python that only the wall clock stopped is 503 with a time to come back', async (t) => {
  // So long that the check does not end within the time that a busy machine needs to run the timer.
  const long = 'x = 1\n'.repeat(150_000);
  const error = await t.throwsAsync(createPythonChecker(undefined, 1).check(long), { instanceOf: ServiceError });
  t.is(error?.code, 'overloaded');
  t.truthy(error?.headers['Retry-After']);
});
