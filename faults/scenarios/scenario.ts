import type { Scene, Stage } from '../scene.ts';
import type { FaultServers } from '../servers.ts';

/** One row of the fault table. */
export interface Scenario {
  readonly name: string;
  /** The action in words, for the table. */
  readonly did: string;
  /** Answers why this machine cannot run it, or null. */
  readonly missing?: (stage: Stage) => Promise<string | null>;
  /** Servers of its own in place of the common ones. */
  readonly servers?: (stage: Stage) => Promise<FaultServers>;
  /** Resolves when the fault is over and all callers have their answers; answers what it found itself. */
  readonly run: (scene: Scene) => Promise<readonly string[] | void>;
  readonly restWithinMs?: number;
  /** False: its jobs are the platform's own, which tell the witness nothing. */
  readonly isWitnessed?: boolean;
}
