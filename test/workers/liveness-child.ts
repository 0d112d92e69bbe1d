import { setImmediate as turn } from 'node:timers/promises';
import { startLivenessWatch } from '#workers/liveness.ts';

/** A process that is watched, and works as its argument says. */
const limitMs = 2000;
const sliceMs = 5;
const slices = 600;

const cpuMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

/** In CPU time: while the process is halted, its work does not go on. */
const burn = (ms: number): void => {
  const end = cpuMs() + ms;
  while (cpuMs() < end);
};

const standStill = (): void => {
  for (;;) burn(1000);
};

const workInSlices = async (): Promise<void> => {
  for (let i = 0; i < slices; i += 1) {
    // By then the watching thread has begun.
    if (i === slices / 2) process.send?.('halfway');
    burn(sliceMs);
    await turn();
  }
};

const stop = startLivenessWatch({ limitMs, beatMs: 50 });
if (process.argv[2] === 'stands still') standStill();
await workInSlices();
await stop();
process.stdout.write('done\n');
process.disconnect?.();
