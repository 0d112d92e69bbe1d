import { type ClientBase, DatabaseError, type Submittable } from 'pg';
import { type WatchLimits, watchAnswer } from './watch.ts';
import { type Execution, type Wire, executionsOf, wireOf } from './wire.ts';

/** A statement with what is bound to its `$1`, `$2`, …, in the server's text form. */
export interface Bound {
  readonly text: string;
  readonly params: readonly (string | null)[];
}

export type TextRow = readonly (string | null)[];

export interface PipelineLimits extends WatchLimits {
  /** The version of the schema that the statements were written for; empty where they do not depend on it. */
  readonly schemaVersion?: string;
}

// A prepared statement costs the server some 17 KB: 1,000 of them took a backend 17 MB.
const maxPrepared = 100;
/** Statements that are longer are mostly said once: a thousand filters. */
const maxPreparedLength = 16_384;

/** The prepared statements of one connection, the one that was used last at the end. */
class Prepared {
  readonly #names = new Map<string, string>();
  #made = 0;
  #version = '';

  isOf(version: string): boolean {
    return version === this.#version;
  }

  /** Its name, when the server has it. */
  use(text: string): string | undefined {
    const name = this.#names.get(text);
    if (name !== undefined) {
      this.#names.delete(text);
      this.#names.set(text, name);
    }
    return name;
  }

  nextName(): string {
    return `plinth_${(this.#made += 1)}`;
  }

  keep(text: string, name: string): void {
    this.#names.set(text, name);
  }

  /**
   * The names that are of another version of the schema: a prepared statement keeps the types that its parameters had.
   * They are forgotten here.
   */
  takeOutdated(version: string): string[] {
    if (this.isOf(version)) return [];
    this.#version = version;
    const names = [...this.#names.values()];
    this.#names.clear();
    return names;
  }

  /** Takes the name of the one that was used longest ago, when there are too many. */
  takeOldest(): string | undefined {
    if (this.#names.size < maxPrepared) return undefined;
    const [oldest] = this.#names;
    if (oldest === undefined) return undefined;
    this.#names.delete(oldest[0]);
    return oldest[1];
  }

  forgetAll(): void {
    this.#names.clear();
  }
}

const preparedOf = new WeakMap<ClientBase, Prepared>();

const statementsOn = (client: ClientBase): Prepared => {
  const present = preparedOf.get(client);
  if (present) return present;
  const made = new Prepared();
  preparedOf.set(client, made);
  return made;
};

/** Sends one statement; answers what there is to remember once the server has parsed it. */
const sendOne = (wire: Wire, prepared: Prepared, { text, params }: Bound): { text: string; name: string } | null => {
  if (text.length > maxPreparedLength) {
    wire.parse({ text });
    wire.bind({ values: params });
    wire.execute();
    return { text: '', name: '' };
  }
  const known = prepared.use(text);
  const name = known ?? prepared.nextName();
  if (known === undefined) {
    const oldest = prepared.takeOldest();
    if (oldest !== undefined) wire.close({ type: 'S', name: oldest });
    wire.parse({ text, name });
  }
  wire.bind({ values: params, statement: name });
  wire.execute();
  return known === undefined ? { text, name } : null;
};

/** All of them as they are sent, when the server has all of them; null when one must be parsed first. */
const preparedExecutions = (prepared: Prepared, statements: readonly Bound[]): Execution[] | null => {
  const executions: Execution[] = [];
  for (const { text, params } of statements) {
    const statement = prepared.use(text);
    if (statement === undefined) return null;
    executions.push({ statement, values: params });
  }
  return executions;
};

interface Job {
  readonly statements: readonly Bound[];
  readonly prepared: Prepared;
  readonly schemaVersion: string;
  readonly resolve: (rows: readonly (readonly TextRow[])[]) => void;
  readonly reject: (error: unknown) => void;
}

/** The callbacks that pg invokes while the statements are sent and answered. */
class PipelineQuery implements Submittable {
  readonly #job: Job;
  readonly #rows: TextRow[][] = [[]];
  #parsed: (() => void) | undefined;

  constructor(job: Job) {
    this.#job = job;
  }

  submit(connection: unknown): void {
    const wire = connection as Wire;
    const { prepared, schemaVersion, statements } = this.#job;
    const executions = prepared.isOf(schemaVersion) ? preparedExecutions(prepared, statements) : null;
    if (executions) wire.stream.write(executionsOf(executions));
    else this.#parseAndSend(wire);
  }

  #parseAndSend(wire: Wire): void {
    const { prepared, schemaVersion, statements } = this.#job;
    const parsing: { text: string; name: string }[] = [];
    this.#parsed = () => {
      const parsed = parsing.shift();
      if (parsed && parsed.name !== '') prepared.keep(parsed.text, parsed.name);
    };
    wire.on('parseComplete', this.#parsed);
    wire.stream.cork();
    for (const name of prepared.takeOutdated(schemaVersion)) wire.close({ type: 'S', name });
    for (const statement of statements) {
      const fresh = sendOne(wire, prepared, statement);
      if (fresh) parsing.push(fresh);
    }
    wire.sync();
    wire.stream.uncork();
  }

  #done(wire: Wire): void {
    if (this.#parsed) wire.off('parseComplete', this.#parsed);
  }

  handleDataRow({ fields }: { readonly fields: TextRow }): void {
    this.#rows.at(-1)?.push(fields);
  }

  handleCommandComplete(): void {
    this.#rows.push([]);
  }

  handleEmptyQuery(): void {
    this.#rows.push([]);
  }

  handlePortalSuspended(): void {}

  handleRowDescription(): void {}

  handleCopyData(): void {}

  handleCopyInResponse(wire: Wire): void {
    wire.sendCopyFail('there is nothing to copy from');
    // The server took our Sync for data.
    wire.sync();
  }

  handleError(error: unknown, wire: Wire): void {
    const { reject } = this.#job;
    if (!(error instanceof DatabaseError) || error.severity !== 'ERROR') {
      this.#done(wire);
      reject(error);
      return;
    }
    // The server skips the rest and undoes what was done; then the connection is as it was.
    const end = (): void => {
      wire.off('readyForQuery', end).off('end', end);
      this.#done(wire);
      reject(error);
    };
    wire.once('readyForQuery', end).once('end', end);
  }

  handleReadyForQuery(wire: Wire): void {
    this.#done(wire);
    this.#job.resolve(this.#rows);
  }
}

const attempt = (
  client: ClientBase,
  statements: readonly Bound[],
  { schemaVersion = '', ...limits }: PipelineLimits,
): Promise<readonly (readonly TextRow[])[]> =>
  new Promise((resolve, reject) => {
    const end = watchAnswer(wireOf(client).stream, limits, reject);
    const job: Job = {
      statements,
      prepared: statementsOn(client),
      schemaVersion,
      resolve: (rows) => {
        end();
        resolve(rows);
      },
      reject: (error) => {
        end();
        // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- as pg gave it
        reject(error);
      },
    };
    client.query(new PipelineQuery(job));
  });

const isStatementGone = (error: unknown): boolean => error instanceof DatabaseError && error.code === '26000';

/**
 * Runs statements in one round trip. Outside of a transaction they are one: all of them take effect, or none. Each is a
 * prepared statement after the first time (at most 100 for each connection).
 * @returns the rows of each statement, texts as the server writes them
 * @throws {AnswerTooLarge} the connection is gone then
 * @throws what pg throws
 */
export const runPipeline = async (
  client: ClientBase,
  statements: readonly Bound[],
  limits: PipelineLimits,
): Promise<readonly (readonly TextRow[])[]> => {
  try {
    return await attempt(client, statements, limits);
  } catch (error) {
    // SQL of the project can deallocate. In a transaction the failure stands; outside nothing was done yet.
    if (!isStatementGone(error)) throw error;
    statementsOn(client).forgetAll();
    if (client.getTransactionStatus() !== 'I') throw error;
    return attempt(client, statements, limits);
  }
};
