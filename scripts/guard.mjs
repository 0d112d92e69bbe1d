// The dead-man guard. The supervisor holds our standard input and writes down each process that it starts; when the
// input ends without "bye", the supervisor was killed, and we stop what it left.
// Arguments: lock file, pid of the supervisor, grace in ms, folders to remove (or nothing).
import { rmSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { stopLeftovers } from './leftovers.ts';
import { releaseLock } from './pid-lock.ts';

const [lockFile, supervisor, graceMs, ...temporaryFolders] = process.argv.slice(2);

// A name of its own: whoever kills every "node" should not take the guard with them.
process.title = `plinth-guard ${path.dirname(lockFile)}`;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => undefined);

let processes = [];
let dismissed = false;
const input = createInterface({ input: process.stdin });
input.on('line', (line) => {
  if (line === 'bye') dismissed = true;
  else processes = JSON.parse(line);
});
const clearUp = async () => {
  await stopLeftovers(processes, Number(graceMs));
  for (const folder of temporaryFolders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  if (temporaryFolders.length === 0) releaseLock(lockFile, Number(supervisor));
};
input.on('close', () => {
  if (dismissed) process.exit(0);
  void clearUp().then(() => process.exit(0));
});
