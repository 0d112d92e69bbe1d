import type { Gateway } from '#domain/ai/gateway/types.ts';
import type { ChangeListeners } from '#domain/database/database.ts';
import type { Transports } from '#domain/email/transports.ts';
import type { LoadRunnable } from '#domain/functions/runnables.ts';
import type { Projects } from '#domain/projects/projects.ts';
import type { RepeatableOrder } from '#domain/functions/enqueue-once.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Egress } from '#lib/egress.ts';
import type { Platform } from '#domain/platform.ts';
import type { Log } from '#lib/log.ts';
import type { StorageConfig } from '#domain/storage/limits.ts';
import type { StorageDeps } from '#domain/storage/storage.ts';
import type { StorageDriver } from '#lib/object-store/object-store.ts';
import type { Signals } from '#queues/signals.ts';
import type { Processor } from '../processor.ts';
import type { StepRecorder } from '../services/steps/recorder.ts';
import type { OpenServices, Runtimes } from './function-invoke.ts';
import type { TryRecorder } from './webhook-deliver.ts';

/** Everything that processors work with; each names in its parameter what it takes of it. */
export interface ProcessorDeps extends ChangeListeners {
  readonly db: ControlDb;
  readonly projects: Projects;
  readonly tenantDb: Projects['tenantDb'];
  readonly egress: Egress;
  readonly log: Log;
  /** On a developer's machine, where mails without a server are kept for the mailbox page. */
  readonly local: boolean;
  /** The platform's own address, for links. */
  readonly baseUrl: string;
  readonly gateway: Gateway;
  /** Project mail servers, and how long one may take to answer to a whole mail. */
  readonly transports: Transports;
  readonly answerMs: number;
  /** Bytes of files, and how long they are kept once no row names them. */
  readonly files: { readonly bytes: StorageDriver; readonly keepHours: number; readonly config: StorageConfig };
  /** Files of projects, with their rows. */
  readonly storage: StorageDeps;
  readonly servers: Platform['servers'];
  /** Makes the jobs of triggers. */
  readonly enqueueOnce: (projectId: string, order: RepeatableOrder) => Promise<void>;
  /** Hands deliveries to those who listen. */
  readonly deliver: Signals['deliver'];
  /** Tells those who listen to a project's log. */
  readonly announceLines: Signals['announceLines'];
  /** Records attempts of webhook deliveries. */
  readonly recorder: TryRecorder;
  /** Functions: their code, the languages of this worker (none when it does not serve them), and what they may call. */
  readonly load: LoadRunnable;
  readonly runtimes: Runtimes;
  readonly services: OpenServices;
  readonly steps: StepRecorder;
}

/** Makes the processor of a job type; called once, when a worker starts that serves the type. */
export type OpenProcessor = (deps: ProcessorDeps) => Processor;
