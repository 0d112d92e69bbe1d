import test, { type ExecutionContext } from 'ava';
import { type CompileLine, createCompileLine, createCompiler } from '#domain/functions/compiler.ts';
import { createPythonChecker } from '#domain/functions/python.ts';
import { ServiceError } from '#lib/errors.ts';

const bounds = { ofProject: 3, ofAll: 6, waitMs: 60_000 };

/** Work that goes on until it is let go; the order in which all of it began. */
const worksIn = (inLine: CompileLine) => {
  const started: string[] = [];
  const held = Promise.withResolvers<undefined>();
  const work = (project: string, name: string): Promise<string> =>
    inLine(project, async () => {
      started.push(name);
      await held.promise;
      return name;
    });
  return { started, work, letGo: () => held.resolve(undefined) };
};

const full = async (t: ExecutionContext, work: Promise<unknown>): Promise<void> => {
  const error = await t.throwsAsync(work, { instanceOf: ServiceError });
  t.is(error?.code, 'queue_full');
  t.is(error?.status, 429);
  t.truthy(error?.headers['Retry-After']);
};

test('turns go round by project', async (t) => {
  const { started, work, letGo } = worksIn(createCompileLine(bounds));
  const all = [work('a', 'a1'), work('a', 'a2'), work('a', 'a3'), work('b', 'b1'), work('c', 'c1'), work('b', 'b2')];
  letGo();
  t.deepEqual(await Promise.all(all), ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']);
  t.deepEqual(started, ['a1', 'a2', 'b1', 'c1', 'a3', 'b2']);
});

test('of several at a time no project has more than one: what takes long keeps only its own waiting', async (t) => {
  const inLine = createCompileLine({ ...bounds, atOnce: 2 });
  const slow = Promise.withResolvers<string>();
  const started: string[] = [];
  const work = (project: string, name: string, end: Promise<string> = Promise.resolve(name)): Promise<string> =>
    inLine(project, () => {
      started.push(name);
      return end;
    });
  const first = work('a', 'a1', slow.promise);
  const second = work('a', 'a2');
  t.deepEqual(await Promise.all([work('b', 'b1'), work('c', 'c1'), work('b', 'b2')]), ['b1', 'c1', 'b2']);
  t.deepEqual(started, ['a1', 'b1', 'c1', 'b2']);
  slow.resolve('a1');
  t.deepEqual(await Promise.all([first, second]), ['a1', 'a2']);
});

test('one at a time, and the line goes on after what failed', async (t) => {
  const inLine = createCompileLine(bounds);
  let [running, max] = [0, 0];
  const work = async (): Promise<void> => {
    max = Math.max(max, (running += 1));
    await new Promise(setImmediate);
    running -= 1;
    throw new Error('no');
  };
  for (let round = 0; round < 2; round += 1)
    await Promise.all(['a', 'a', 'b'].map((project) => t.throwsAsync(inLine(project, work), { message: 'no' })));
  t.is(await inLine('a', () => Promise.resolve(1)), 1);
  t.is(max, 1);
});

test('a project has a bound of its own, which is free again afterwards', async (t) => {
  const { work, letGo } = worksIn(createCompileLine(bounds));
  const three = [work('a', '1'), work('a', '2'), work('a', '3')];
  await full(t, work('a', '4'));
  const other = work('b', '5');
  letGo();
  await Promise.all([...three, other]);
  t.is(await work('a', '6'), '6');
});

test('in a full line, who has the most gives way to who has less', async (t) => {
  const { started, work, letGo } = worksIn(createCompileLine(bounds));
  const kept = [work('a', 'a1'), work('a', 'a2'), work('b', 'b1'), work('b', 'b2')];
  const last = full(t, work('b', 'b3'));
  kept.push(work('c', 'c1'), work('d', 'd1'));
  await last;
  const refused = full(t, kept.splice(3, 1)[0] ?? Promise.resolve());
  kept.push(work('e', 'e1'));
  await refused;
  await full(t, work('f', 'f1'));
  letGo();
  await Promise.all(kept);
  t.deepEqual(started, ['a1', 'a2', 'b1', 'c1', 'd1', 'e1']);
});

test('what waits too long is refused and does not run', async (t) => {
  const { started, work, letGo } = worksIn(createCompileLine({ ...bounds, waitMs: 5 }));
  const first = work('a', 'a1');
  await full(t, work('a', 'a2'));
  letGo();
  await first;
  await work('a', 'a3');
  t.deepEqual(started, ['a1', 'a3']);
});

test('deploys of a project beyond its bound are refused, those of others are not, in either language', async (t) => {
  const compiler = createCompiler();
  t.teardown(compiler.close);
  const { check } = createPythonChecker(undefined);
  for (const deploy of [
    (project: string): Promise<unknown> => compiler.compile('exports.handler = () => 1', project),
    (project: string): Promise<unknown> => check('def handler(x): return x', project),
  ]) {
    const answers = await Promise.allSettled([...Array.from({ length: 70 }, () => deploy('a')), deploy('b')]);
    const refused = answers.filter(({ status }) => status === 'rejected');
    t.is(refused.length, 6);
    t.is(answers.at(-1)?.status, 'fulfilled');
  }
});
