import { type ClientBase, DatabaseError } from 'pg';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import type { TenantLease } from '#lib/tenant-db.ts';
import { CallFault } from '../../runtimes/runtime.ts';
import { endSessionOf, stopQuery } from '#domain/data-api/stop-query.ts';
import { wireOf } from '#lib/postgres/wire.ts';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { runIsOver } from './faults.ts';

export interface SessionOptions {
  readonly tenantDb: Pick<ProjectDb, 'endSession'>;
  readonly projectId: string;
  readonly lease: TenantLease;
  /** How long a statement that begins now may take. */
  readonly leftMs: () => number;
  /** How many jobs stand behind the run that each led to the next. */
  readonly depth: number;
}

type Work<T> = (client: ClientBase) => Promise<T>;

const cleaningMs = 5000;

/**
 * An error that the server reported, or a refusal of ours, leaves the connection usable; after any other error it is
 * gone.
 */
const breaksConnection = (error: unknown, client: ClientBase): boolean => {
  if (error instanceof CallFault) return false;
  if (error instanceof AnswerTooLarge) return wireOf(client).stream.destroyed;
  return !(error instanceof DatabaseError) || error.severity !== 'ERROR';
};

/** One connection as long as one run has it. What is asked of it is done in order, one after the other. */
export class Session {
  readonly #options: SessionOptions;
  readonly #client: ClientBase;
  #last: Promise<unknown> = Promise.resolve();
  /** The signal of the running statement; aborted when it has ended. */
  #running: AbortController | null = null;
  #limitMs = Number.POSITIVE_INFINITY;
  #over = false;
  /** The connection broke; its user has been notified. */
  lost = false;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#client = options.lease.client;
  }

  /** @throws {CallFault} when the run is over, and what `work` throws */
  use<T>(work: Work<T>): Promise<T> {
    const queued = this.#last.then(() => {
      if (this.#over) throw runIsOver();
      return this.#attempt(async (client) => {
        await this.#limit(client);
        return work(client);
      });
    });
    this.#last = queued.catch(() => undefined);
    return queued;
  }

  /**
   * The run is over, or the transaction is: ends what runs, clears what of a session outlives its statements and gives
   * the connection back. Never rejects.
   */
  async end(): Promise<void> {
    if (this.#over) return;
    this.#over = true;
    const wasRunning = this.#stop();
    await this.#last;
    // A cancellation may arrive late and would hit the next user of the connection.
    this.#options.lease.giveBack(!wasRunning && !this.lost && (await this.#clean()));
  }

  #stop(): boolean {
    if (this.#running === null) return false;
    const { tenantDb, projectId } = this.#options;
    void stopQuery(tenantDb, { projectId, client: this.#client, ended: this.#running.signal });
    return true;
  }

  async #clean(): Promise<boolean> {
    const overdue = setTimeout(() => this.#stop(), cleaningMs);
    try {
      await this.#attempt(async (client) => {
        if (client.getTransactionStatus() !== 'I') await client.query('rollback');
        await client.query('discard all');
      });
      return true;
    } catch {
      return false;
    } finally {
      clearTimeout(overdue);
    }
  }

  async #attempt<T>(work: Work<T>): Promise<T> {
    const running = new AbortController();
    this.#running = running;
    try {
      return await work(this.#client);
    } catch (error) {
      if (breaksConnection(error, this.#client)) this.#lose();
      throw error;
    } finally {
      running.abort();
      this.#running = null;
    }
  }

  #lose(): void {
    this.lost = true;
    // A statement that runs there may not notice that nobody waits for it any more.
    const { tenantDb, projectId } = this.#options;
    void endSessionOf(tenantDb, { projectId, client: this.#client });
  }

  /**
   * The server's own limit, for a worker that dies: whatever still runs when the run ends is cancelled anyway. So it
   * need not be exact, and is set once in most runs. With it goes the depth of the run, which events of its writes keep
   * (migrations/project/0036_event_depth.sql).
   */
  async #limit(client: ClientBase): Promise<void> {
    const left = this.#options.leftMs();
    if (left * 2 > this.#limitMs || client.getTransactionStatus() !== 'I') return;
    const { depth } = this.#options;
    await client.query(`set statement_timeout = ${left}${depth > 0 ? `; set plinth.depth = ${depth}` : ''}`);
    this.#limitMs = left;
  }
}
