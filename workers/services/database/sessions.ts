import type { ProjectDb } from '#domain/projects/project-db.ts';
import type { TenantRole } from '#lib/tenant-db.ts';
import { databaseFault, faultOfConnecting, runIsOver } from './faults.ts';
import { Session } from './session.ts';

export interface SessionsOptions {
  readonly tenantDb: Pick<ProjectDb, 'lease' | 'endSession'>;
  readonly projectId: string;
  /** The role that signs in. */
  readonly role: TenantRole;
  /** How long a statement that begins now may take. */
  readonly leftMs: () => number;
  /** How many jobs stand behind the run that each led to the next. */
  readonly depth: number;
}

const maxTransactions = 4;

const tooManyTransactions = () =>
  databaseFault('53400', `At most ${maxTransactions} transactions of one run may be open at a time.`);

const transactionOver = (why = 'The transaction is over.') => databaseFault('25P01', why);

/** The connections of one run: one that it keeps, and one for each transaction. */
export class RunSessions {
  readonly #options: SessionsOptions;
  #home: Promise<Session> | null = null;
  readonly #transactions = new Map<number, Session>();
  /**
   * Transactions whose end waits for their running statements: they stay open as long, and the run's end stops them,
   * too.
   */
  readonly #ending = new Set<Session>();
  #opening = 0;
  #lastTransaction = 0;
  #over = false;

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /**
   * The connection of calls outside of transactions. A broken one is replaced by another one: the call under which it
   * broke got an error.
   * @throws {CallFault}
   */
  async home(): Promise<Session> {
    const kept = this.#keptHome();
    const home = await kept;
    if (!home.lost) return home;
    if (this.#home === kept) {
      this.#home = null;
      void home.end();
    }
    return this.#keptHome();
  }

  /** @throws {CallFault} */
  async begin(): Promise<number> {
    const held = this.#transactions.size + this.#ending.size + this.#opening;
    if (held >= maxTransactions) throw tooManyTransactions();
    const session = await this.#opened();
    const number = (this.#lastTransaction += 1);
    // It is known before it has started: the end of the run finds it.
    this.#transactions.set(number, session);
    await session.use((client) => client.query('begin')).catch((error: unknown) => this.#abandon(number, error));
    return number;
  }

  /**
   * Where the calls of a transaction go. Not a promise: who waited for one would come behind a commit that was sent
   * later.
   * @throws {CallFault}
   */
  transaction(number: number): Session {
    const session = this.#transactions.get(number);
    if (session === undefined) throw transactionOver();
    if (session.lost) throw transactionOver('The connection of the transaction broke: nothing of it was kept.');
    return session;
  }

  /** @throws {CallFault} when nothing was kept of the transaction */
  async commit(transaction: number): Promise<void> {
    const session = this.transaction(transaction);
    await this.#finish(transaction, session, () =>
      session.use(async (client) => {
        const status = client.getTransactionStatus();
        if (status === 'I') throw transactionOver('A statement of the transaction has ended it itself.');
        // COMMIT would roll it back and call that a success.
        if (status === 'E') throw databaseFault('25P02', 'A statement failed: nothing of the transaction was kept.');
        await client.query('commit');
      }),
    );
  }

  /** A transaction that is over has nothing left to roll back. */
  async rollback(transaction: number): Promise<void> {
    const session = this.#transactions.get(transaction);
    if (session === undefined) return;
    await this.#finish(transaction, session, async () => {
      // A connection that breaks meanwhile rolls back, too.
      if (!session.lost) await session.use((client) => client.query('rollback')).catch(() => undefined);
    });
  }

  /** Running statements are cancelled and open transactions rolled back; nobody waits for that. */
  end(): void {
    this.#over = true;
    for (const session of [...this.#transactions.values(), ...this.#ending]) void session.end();
    void this.#home?.then(
      (home) => home.end(),
      () => undefined,
    );
  }

  /** A transaction takes no more calls; its session ends when those that it has taken are done. */
  async #finish(number: number, session: Session, lastly: () => Promise<void>): Promise<void> {
    this.#transactions.delete(number);
    this.#ending.add(session);
    try {
      await lastly();
    } finally {
      this.#ending.delete(session);
      void session.end();
    }
  }

  #abandon(number: number, error: unknown): never {
    void this.#transactions.get(number)?.end();
    this.#transactions.delete(number);
    throw error;
  }

  #keptHome(): Promise<Session> {
    if (this.#home !== null) return this.#home;
    const home = this.#open();
    this.#home = home;
    home.catch(() => {
      this.#home = null;
    });
    return home;
  }

  /** A session that counts while it is being opened. */
  async #opened(): Promise<Session> {
    this.#opening += 1;
    try {
      return await this.#open();
    } finally {
      this.#opening -= 1;
    }
  }

  /** @throws {CallFault} */
  async #open(): Promise<Session> {
    if (this.#over) throw runIsOver();
    const { tenantDb, projectId, role, leftMs, depth } = this.#options;
    const lease = await tenantDb.lease(projectId, role).catch((error: unknown) => {
      throw faultOfConnecting(error);
    });
    if (this.#over) {
      lease.giveBack(true);
      throw runIsOver();
    }
    return new Session({ tenantDb, projectId, lease, leftMs, depth });
  }
}
