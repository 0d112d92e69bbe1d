import { writeSync } from 'node:fs';
import { workerData } from 'node:worker_threads';
import type { LivenessWatch } from './liveness.ts';

const { beats, limitMs, beatMs } = workerData as LivenessWatch;
const counter = new Int32Array(beats);

const stderr = 2;

/** Straight to the descriptor: the streams of a thread go through the main thread, which stands still. */
const log = (line: string): void => {
  try {
    writeSync(stderr, `${line}\n`);
  } catch {
    // Nobody reads it; the process ends in any case.
  }
};

// Waits from beat to beat; asleep in between, the thread costs next to nothing. A wait that took far longer than it
// should means that the process was halted as a whole: by now others have taken over its jobs.
const max = Math.ceil(limitMs / beatMs);
let silent = 0;
let seen = Atomics.load(counter, 0);
let wasStopped = false;
while (silent < max && !wasStopped) {
  const began = performance.now();
  const how = Atomics.wait(counter, 0, seen, beatMs * 1.1);
  const now = Atomics.load(counter, 0);
  silent = how === 'timed-out' && now === seen ? silent + 1 : 0;
  seen = now;
  wasStopped = performance.now() - began > limitMs;
}
const why = wasStopped ? 'the process was halted' : 'the event loop has stood still';
log(`plinth: ${why} for ${limitMs} ms; this process (${process.pid}) is killed`);
process.kill(process.pid, 'SIGKILL');
