import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import test from 'ava';
import { measureSlowness } from '#scripts/slowness.ts';
import { until } from './support.ts';

test('beside processes that keep every core busy a machine is measured as slower', async (t) => {
  const busy = Array.from({ length: 4 * availableParallelism() }, () =>
    spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
  );
  t.teardown(() => busy.forEach((child) => child.kill('SIGKILL')));
  const { times } = await until(() => {
    const measured = measureSlowness();
    return measured.isBusy && measured;
  });
  t.true(times > 1 && times <= 8, `${times}`);
});
