import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type ProcessRecord, isRunning, processIdentity } from './process-identity.ts';

/** The content of the lock file: the process on this data folder, its address, and the processes that belong to it. */
export interface LockRecord {
  readonly pid: number;
  readonly identity: string;
  readonly url?: string;
  /** How the servers are reached, as settings of a process. */
  readonly environment?: Readonly<Record<string, string>>;
  readonly processes: readonly ProcessRecord[];
}

export interface PidLock {
  readonly update: (change: Partial<Omit<LockRecord, 'pid' | 'identity'>>) => void;
  readonly release: () => void;
}

export type Claim =
  | { readonly taken: true; readonly lock: PidLock; readonly leftovers: readonly ProcessRecord[] }
  | { readonly taken: false; readonly owner: LockRecord };

const read = (file: string): LockRecord | null => {
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'));
    return typeof value === 'object' && value !== null && 'pid' in value && 'identity' in value
      ? ({ processes: [], ...value } as LockRecord)
      : null;
  } catch {
    return null;
  }
};

const writeBeside = (file: string, record: LockRecord): string => {
  const temporary = `${file}.${process.pid}`;
  writeFileSync(temporary, JSON.stringify(record), { mode: 0o600 });
  return temporary;
};

// link(2) fails when the name exists: of two that try at once exactly one gets it, and it is never seen half written.
const tryLink = (file: string, record: LockRecord): boolean => {
  const temporary = writeBeside(file, record);
  try {
    linkSync(temporary, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return false;
  } finally {
    rmSync(temporary, { force: true });
  }
};

const moveAside = (file: string): void => {
  const aside = `${file}.${process.pid}.stale`;
  try {
    renameSync(file, aside);
  } catch {
    return; // Someone else was faster.
  }
  const moved = read(aside);
  // Between reading and moving another start may have put its own record there: give it back.
  if (moved !== null && isRunning(moved)) renameSync(aside, file);
  else rmSync(aside, { force: true });
};

/** The record of the running owner of a data folder, or `null`. */
export const lockOwner = (file: string): LockRecord | null => {
  const record = read(file);
  return record !== null && isRunning(record) ? record : null;
};

/** The processes that the last owner wrote down, whether it still runs or not. */
export const recordedProcesses = (file: string): readonly ProcessRecord[] => read(file)?.processes ?? [];

const hold = (file: string, own: LockRecord): PidLock => {
  let record: LockRecord | null = own;
  return {
    update: (change) => {
      if (record === null) return;
      record = { ...record, ...change };
      try {
        renameSync(writeBeside(file, record), file);
      } catch {
        // A full disk: the guard knows the same by its pipe.
      }
    },
    release: () => {
      record = null;
      releaseLock(file, own.pid);
    },
  };
};

/** Removes the lock file if it still is that of `pid`. */
export const releaseLock = (file: string, pid: number): void => {
  if (read(file)?.pid === pid) rmSync(file, { force: true });
};

/**
 * Claims a data folder for this process. A lock whose owner died is taken over, whichever process has its pid now; the
 * processes that the owner left are returned in `leftovers`.
 */
export const claimLock = (file: string): Claim => {
  mkdirSync(path.dirname(file), { recursive: true });
  const own: LockRecord = { pid: process.pid, identity: processIdentity(process.pid) ?? '', processes: [] };
  let leftovers: readonly ProcessRecord[] = [];
  for (;;) {
    if (tryLink(file, own)) return { taken: true, lock: hold(file, own), leftovers };
    const owner = lockOwner(file);
    if (owner !== null) return { taken: false, owner };
    leftovers = recordedProcesses(file);
    moveAside(file);
  }
};
