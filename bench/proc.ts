import { readFileSync, readdirSync, readlinkSync } from 'node:fs';

const megabyte = 1e6;
const kibibyte = 1024;
/** The kernel counts in these for everybody, whatever its own clock (USER_HZ). */
const ticksPerSecond = 100;

export interface Memory {
  /** Returns the resident memory of the process in MB (10⁶ bytes), shared files included. */
  readonly rssMb: number;
  /** The same with shared pages divided among their users. */
  readonly pssMb: number;
}

const field = (text: string, name: string): number => {
  const match = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text);
  return (Number(match?.[1] ?? Number.NaN) * kibibyte) / megabyte;
};

/** Linux only. */
export const memoryOf = (pid: number): Memory => {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return { rssMb: field(rollup, 'Rss'), pssMb: field(rollup, 'Pss') };
};

/** CPU time of the process with all its threads, user and kernel, in seconds; to 10 ms. Linux only. */
export const cpuSeconds = (pid: number): number => {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
};

const attempt = (read: () => string): string => {
  try {
    return read();
  } catch {
    return '';
  }
};

/** The processes that run in a folder or name it on their command line or in their environment. Linux only. */
export const processesAbout = (folder: string): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && pid !== process.pid)
    .filter((pid) =>
      [
        attempt(() => readlinkSync(`/proc/${pid}/cwd`)),
        attempt(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8')),
        attempt(() => readFileSync(`/proc/${pid}/environ`, 'utf8')),
      ].some((text) => text.includes(folder)),
    );
