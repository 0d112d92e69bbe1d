import { fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import test from 'ava';

const script = path.join(import.meta.dirname, 'liveness-child.ts');
const longerThanTheLimitMs = 3000;

const start = (mode: string) => {
  const child = fork(script, [mode], { execArgv: ['--no-node-snapshot'], stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error('the streams of the child are not piped');
  return {
    child,
    halfway: once(child, 'message'),
    end: Promise.all([once(child, 'exit'), text(stdout), text(stderr)]).then(([[code, signal], out, err]) => ({
      how: (code ?? signal) as number | string,
      out,
      err,
    })),
  };
};

test('a process whose event loop stands still is killed, and says why', async (t) => {
  const { child, end } = start('stands still');
  const { how, out, err } = await end;
  t.is(how, 'SIGKILL');
  t.is(err, `plinth: the event loop has stood still for 2000 ms; this process (${child.pid}) is killed\n`);
  t.is(out, '');
});

test('a process that works hard, but in slices, is left alone', async (t) => {
  const { end } = start('works in slices');
  t.deepEqual(await end, { how: 0, out: 'done\n', err: '' });
});

test('a process that was halted as a whole is killed when it goes on: others have its jobs by then', async (t) => {
  const { child, halfway, end } = start('works in slices');
  await halfway;
  child.kill('SIGSTOP');
  await pause(longerThanTheLimitMs);
  child.kill('SIGCONT');
  const { how, err } = await end;
  t.is(how, 'SIGKILL');
  t.is(err, `plinth: the process was halted for 2000 ms; this process (${child.pid}) is killed\n`);
});
