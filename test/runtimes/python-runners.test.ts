import { existsSync, readdirSync } from 'node:fs';
import { until } from '#test/support/until.ts';
import { openSandbox } from '#workers/runtimes/sandbox.ts';
import { commandLine, request, resultOf } from './harness.ts';
import { hostileHandler as handler, openPython, pythonGuests, pythonTest as test } from './python-harness.ts';

test('a runner that was tampered with is not used again', async (t) => {
  const own = await openPython({ spares: 0 });
  t.teardown(() => own.close());
  const zygotesAfter = async (...body: string[]): Promise<number[]> => {
    await resultOf(t, own, handler(...body));
    return pythonGuests();
  };
  const before = await zygotesAfter('return 1');
  t.true(before.length > 0);
  t.deepEqual(await zygotesAfter('return 1'), before);
  await zygotesAfter('os.setpriority(os.PRIO_PROCESS, os.getppid(), 10)');
  await until(async () => !(await zygotesAfter('return 1')).includes(before[0] ?? 0));
  t.pass();
});

test('closing cancels what runs and leaves no process', async (t) => {
  const own = await openPython();
  t.teardown(() => own.close());
  const running = Promise.withResolvers<void>();
  const marker = String(600_000 + process.pid);
  const code = handler(
    `subprocess.Popen(["sleep", "${marker}"], start_new_session=True)`,
    'print("on")',
    'while True: pass',
  );
  const outcome = own.run(request(code), { onLog: () => running.resolve() });
  await running.promise;
  await until(() => isRunning(marker));
  await own.close();
  t.is((await outcome).status, 'cancelled');
  t.deepEqual(pythonGuests(), []);
  t.false(isRunning(marker));
});

test('without namespaces a run leaves nothing behind either, and harms no other process', async (t) => {
  const own = await openPython({ sandbox: await openSandbox({ level: 'best-effort', local: false }), spares: 0 });
  t.teardown(() => own.close());
  const marker = String(500_000 + process.pid);
  const code = handler(
    `subprocess.Popen(["sh", "-c", "sleep ${marker} & sleep ${marker}"], start_new_session=True)`,
    'open("left", "w").close()',
    'return os.getcwd()',
  );
  const folder = (await resultOf(t, own, code)) as string;
  t.false(existsSync(folder));
  t.false(isRunning(marker));
  t.is(await resultOf(t, own, handler('return len(os.listdir(os.path.dirname(os.getcwd())))')), 1);
});

/** Whether any process of the machine was started with this argument. */
const isRunning = (argument: string): boolean =>
  readdirSync('/proc').some((pid) => /^\d+$/.test(pid) && commandLine(Number(pid)).split('\0').includes(argument));
