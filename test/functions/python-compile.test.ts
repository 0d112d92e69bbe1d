import test from 'ava';
import { createPythonChecker, findPython } from '#domain/functions/python.ts';
import { ServiceError } from '#lib/errors.ts';
import { longTestMs } from '#test/support/time-outs.ts';

const hasPython = (await findPython(undefined)) !== null;
const pythonTest = hasPython ? test : test.skip;
const { check } = createPythonChecker(undefined);

const faults: Record<string, { code: string; message: RegExp }> = {
  'a bracket that is left open': {
    code: 'def handler(payload, sdk):\n  return (1,',
    message: /^line 2, column 10: '\(' was never closed$|^line \d+, column \d+: /,
  },
  'a name that is a keyword': { code: 'x = 1\nclass = 2', message: /^line 2, column 7: invalid syntax$/ },
  'an indentation that fits nothing': { code: 'if 1:\n    x\n  y', message: /^line 3, column \d+: unindent/ },
  'code that only the compiler refuses': { code: 'return 1', message: /^line 1, column 1: 'return' outside function$/ },
};
for (const [what, { code, message }] of Object.entries(faults)) {
  pythonTest(`${what} is refused with its place`, async (t) => {
    const error = await t.throwsAsync(check(code), { instanceOf: ServiceError, code: 'validation_failed' });
    const [detail] = (error?.details ?? []) as { path: string; message: string }[];
    t.is(detail?.path, 'code');
    t.regex(detail?.message ?? '', message);
  });
}

pythonTest('code that could run is accepted, and not run', async (t) => {
  await t.notThrowsAsync(check('raise SystemExit(3)'));
  await t.notThrowsAsync(check('# é\nimport nothing.of.that.name\nasync def handler(payload, sdk): return "\\d"'));
});

const bombs: Record<string, string> = {
  'brackets a million deep': '['.repeat(1_000_000),
  'minus signs a million deep': `${'-'.repeat(1_000_000)}1`,
  'a constant that takes gigabytes': 'x = ((((1 << 9999) ** 99) ** 99) ** 99) ** 99',
};
for (const [what, code] of Object.entries(bombs)) {
  pythonTest(`${what} are the end of the check, not of the process`, async (t) => {
    t.timeout(longTestMs);
    const outcome = await check(code).then(
      () => 'accepted',
      (error: unknown) => (error instanceof ServiceError ? error.code : 'thrown'),
    );
    t.true(['accepted', 'validation_failed'].includes(outcome), outcome);
    await t.notThrowsAsync(check('x = 1'));
  });
}

test('without Python on the machine the code is left to the first run', async (t) => {
  const blind = createPythonChecker('/nonexistent/python3');
  await t.notThrowsAsync(blind.check('def ('));
});

pythonTest('a program that is not Python 3.9 is none', async (t) => {
  t.is(await findPython('/bin/true'), null);
  t.regex((await findPython(undefined))?.version ?? '', /^3\.\d+$/);
});
