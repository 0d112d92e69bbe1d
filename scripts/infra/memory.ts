import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const dayMs = 24 * 60 * 60 * 1000;

/** Remembers for a day that something could not be had, so that each start does not try (and wait) again. */
export interface FailureMemory {
  /** The reason of a failure within the last day. */
  readonly recent: () => string | null;
  readonly remember: (reason: string) => void;
}

export const failureMemory = (runtimeDir: string, name: string): FailureMemory => {
  const file = path.join(runtimeDir, `${name}.failed.json`);
  return {
    recent: () => {
      try {
        const { at, reason } = JSON.parse(readFileSync(file, 'utf8')) as { at: number; reason: string };
        return Date.now() - at < dayMs ? reason : null;
      } catch {
        return null;
      }
    },
    remember: (reason) => {
      mkdirSync(runtimeDir, { recursive: true });
      writeFileSync(file, JSON.stringify({ at: Date.now(), reason }));
    },
  };
};
