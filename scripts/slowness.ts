import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';

const probeCpuMs = 150;
const maxTimes = 8;

/** The figures of a machine of 2026 with two cores, on which the whole suite takes 21 minutes. */
const usual = { unitsPerMs: 70, msPerProcess: 0.7 };

const sample = JSON.stringify(
  Array.from({ length: 40 }, (_, index) => ({ id: index, name: `row ${index}`, tags: ['a', 'b'], at: '2020-01-01' })),
);

/** Some 14 µs of what the platform does most: JSON, sorting, hashing. */
const workUnit = (): string => {
  const rows = JSON.parse(sample) as { readonly name: string }[];
  return createHash('sha256')
    .update(JSON.stringify(rows.toSorted((a, b) => (a.name < b.name ? 1 : -1))))
    .digest('hex');
};

const unitsPerCheck = 20;

/** Works for 150 ms of this process's own processor time. */
const compute = (): { readonly wallMs: number; readonly cpuMs: number; readonly units: number } => {
  const [began, before] = [performance.now(), process.cpuUsage()];
  let [cpuMs, units] = [0, 0];
  while (cpuMs < probeCpuMs) {
    for (let unit = 0; unit < unitsPerCheck; unit++) workUnit();
    units += unitsPerCheck;
    const { user, system } = process.cpuUsage(before);
    cpuMs = (user + system) / 1000;
  }
  return { wallMs: performance.now() - began, cpuMs, units };
};

const processes = 50;

/** The time of a process that a shell starts: it grows with the size of the parent, and a shell's is the same everywhere. */
const msPerProcess = (): number => {
  const began = performance.now();
  spawnSync('/bin/sh', ['-c', `i=0; while [ $i -lt ${processes} ]; do /bin/true; i=$((i+1)); done`]);
  return (performance.now() - began) / processes;
};

export interface Slowness {
  /** How many times as long as usual work takes now, 1 to 8: because the machine is slow, busy or both. */
  readonly times: number;
  /** Whether others keep the processors busy: what the clock shows is over 1.5 times this process's processor time. */
  readonly isBusy: boolean;
}

/** Measures in some 0.2 s what can be expected of this machine: its processors, and how fast it starts processes. */
export const measureSlowness = (): Slowness => {
  const { wallMs, cpuMs, units } = compute();
  const ratio = Math.max((usual.unitsPerMs * wallMs) / units, msPerProcess() / usual.msPerProcess);
  return { times: Math.min(maxTimes, Math.max(1, Math.round(ratio * 10) / 10)), isBusy: wallMs / cpuMs > 1.5 };
};
