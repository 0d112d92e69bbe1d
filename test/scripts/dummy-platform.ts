// A supervisor with three processes that do nothing, for the tests of the guard. Arguments: lock file, folder for logs.
import path from 'node:path';
import { narrateTo } from '#scripts/narrator.ts';
import { claimLock } from '#scripts/pid-lock.ts';
import { type ProcessSpec, readyMessage } from '#scripts/processes.ts';
import { Stack } from '#scripts/stack.ts';

const [lockFile = '', folder = ''] = process.argv.slice(2);
const claim = claimLock(lockFile);
if (!claim.taken) throw new Error('The folder is in use.');

const stack = new Stack({ lock: claim.lock, lockFile, graceMs: 200, narrator: narrateTo(process.stderr) });
const dummy = (name: string, stage: 'app' | 'infra', code: string): ProcessSpec => ({
  name,
  stage,
  command: process.execPath,
  args: ['-e', `${code}; setInterval(() => undefined, 1000); process.send?.({ type: 'ready' })`],
  env: process.env,
  cwd: folder,
  logFile: path.join(folder, `${name}.log`),
  stopSignal: 'SIGTERM',
  stopWithinMs: 300,
  ready: stage === 'app' ? readyMessage : () => Promise.resolve(),
});

await stack.start(dummy('server', 'infra', ''));
await stack.start(dummy('polite', 'app', ''));
await stack.start(dummy('deaf', 'app', `process.on('SIGTERM', () => undefined)`));
process.on('message', () => void stack.stop().then(() => process.exit(0)));
process.send?.({ guard: stack.guardPid });
setInterval(() => process.send?.({ guard: stack.guardPid }), 20);
