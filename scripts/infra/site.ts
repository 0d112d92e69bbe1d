import type { Narrator } from '../narrator.ts';
import type { RunProgram } from '../run-program.ts';

/** Where a platform lives, and the means to provide what it needs there. */
export interface Site {
  readonly root: string;
  readonly dataDir: string;
  /** Where PostgreSQL keeps its data when that is not the data folder. */
  readonly databaseDir?: string;
  readonly runtimeDir: string;
  /** Data that are thrown away afterwards: any port will do. */
  readonly throwaway: boolean;
  /** Whether what was written has to survive the machine going down, at the price of waiting for the disk. */
  readonly durable: boolean;
  readonly narrator: Narrator;
  readonly run: RunProgram;
  /** Aborted when all of it stops: what fails after that failed for that reason. */
  readonly signal: AbortSignal;
}
