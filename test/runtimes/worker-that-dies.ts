/** A process with two busy guests and, in a strict sandbox, one that heeds nobody; the test that starts it kills it. */
import { once } from 'node:events';
import { processTree } from '#workers/runtimes/processes.ts';
import { spawnCommand } from '#workers/runtimes/spawn.ts';
import { guests, openRuntime, request, sandbox } from './harness.ts';

/** Code of an attacker who has left the engine: it ignores signals and the end of every connection. */
async function startUnsubscribed(): Promise<number[]> {
  const shell = { source: '/bin/sh', target: '/bin/sh' };
  const script = 'trap "" HUP TERM INT; echo here; sleep 300; sleep 300';
  const command = sandbox.command({ program: shell, args: ['-c', script], files: [], env: {}, dataMib: 256 }, 9);
  const unsubscribed = spawnCommand(command, ['ignore', 'pipe', 'ignore']);
  if (unsubscribed.stdout !== null) await once(unsubscribed.stdout, 'data');
  return processTree(unsubscribed.pid ?? 0);
}

const runtime = await openRuntime();
const unsubscribed = sandbox.level === 'strict' ? await startUnsubscribed() : [];
let busy = 0;
const onLog = (): void => {
  busy += 1;
  if (busy === 2) process.send?.([...guests(), ...unsubscribed]);
};
for (const projectId of ['a', 'b']) {
  void runtime.run(request('exports.handler = () => { console.log("here"); for (;;); }', { projectId }), { onLog });
}
