import { type ClientBase, DatabaseError, type Submittable } from 'pg';
import { tooMuch } from './answer-too-large.ts';
import { type Wire, wireOf } from './wire.ts';

/** A statement with what is bound to its `$1`, `$2`, …, in the server's text form. */
export interface Bound {
  readonly text: string;
  readonly params: readonly (string | null)[];
}

export type TextRow = readonly (string | null)[];

export interface PipelineLimits {
  /** What may come back altogether, before the connection is cut. */
  readonly mostBytes: number;
  /** The server has a time-out of its own; this one is for a server that says nothing any more. */
  readonly timeoutMs: number;
  /** Of the schema that the statements were written for; empty where they do not depend on it. */
  readonly schemaVersion?: string;
}

// A prepared statement costs the server some 17 KB: 1,000 of them took a backend 17 MB.
const mostPrepared = 100;
/** Statements that are longer are mostly said once: a thousand filters. */
const longestPrepared = 16_384;

/** The prepared statements of one connection, the one that was used last at the end. */
class Prepared {
  readonly #names = new Map<string, string>();
  #made = 0;
  #version = '';

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
    if (version === this.#version) return [];
    this.#version = version;
    const names = [...this.#names.values()];
    this.#names.clear();
    return names;
  }

  /** Takes the name of the one that was used longest ago, when there are too many. */
  takeOldest(): string | undefined {
    if (this.#names.size < mostPrepared) return undefined;
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
  if (text.length > longestPrepared) {
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

interface Outcome {
  readonly resolve: (rows: readonly (readonly TextRow[])[]) => void;
  readonly reject: (error: unknown) => void;
}

const ignore = (): void => undefined;

const pipelineOf = (
  statements: readonly Bound[],
  { prepared, schemaVersion = '' }: { readonly prepared: Prepared; readonly schemaVersion: string | undefined },
  { resolve, reject }: Outcome,
): Submittable & Record<string, unknown> => {
  const rows: TextRow[][] = [[]];
  const parsing: { text: string; name: string }[] = [];
  const onParsed = (): void => {
    const parsed = parsing.shift();
    if (parsed && parsed.name !== '') prepared.keep(parsed.text, parsed.name);
  };
  return {
    submit: (connection) => {
      const wire = connection as unknown as Wire;
      wire.on('parseComplete', onParsed);
      wire.stream.cork();
      for (const name of prepared.takeOutdated(schemaVersion)) wire.close({ type: 'S', name });
      for (const statement of statements) {
        const fresh = sendOne(wire, prepared, statement);
        if (fresh) parsing.push(fresh);
      }
      wire.sync();
      wire.stream.uncork();
    },
    handleDataRow: ({ fields }: { readonly fields: TextRow }) => rows.at(-1)?.push(fields),
    handleCommandComplete: () => rows.push([]),
    handleEmptyQuery: () => rows.push([]),
    handlePortalSuspended: ignore,
    handleRowDescription: ignore,
    handleCopyData: ignore,
    handleCopyInResponse: (wire: Wire) => {
      wire.sendCopyFail('there is nothing to copy from');
      // The server took our Sync for data.
      wire.sync();
    },
    handleError: (error: unknown, wire: Wire) => {
      if (!(error instanceof DatabaseError) || error.severity !== 'ERROR') {
        wire.off('parseComplete', onParsed);
        return reject(error);
      }
      // The server skips the rest and undoes what was done; then the connection is as it was.
      const end = (): void => {
        wire.off('readyForQuery', end).off('end', end).off('parseComplete', onParsed);
        reject(error);
      };
      wire.once('readyForQuery', end).once('end', end);
    },
    handleReadyForQuery: (wire: Wire) => {
      wire.off('parseComplete', onParsed);
      resolve(rows);
    },
  };
};

const attempt = async (
  client: ClientBase,
  statements: readonly Bound[],
  { mostBytes, timeoutMs, schemaVersion }: PipelineLimits,
): Promise<readonly (readonly TextRow[])[]> => {
  const { stream } = wireOf(client);
  const { promise, resolve, reject } = Promise.withResolvers<readonly (readonly TextRow[])[]>();
  let bytes = 0;
  const cut = (error: Error): void => {
    reject(error);
    stream.destroy();
  };
  const count = ({ length }: Buffer): void => {
    bytes += length;
    if (bytes > mostBytes) cut(tooMuch(`more than ${Math.floor(mostBytes / 1024 / 1024)} MB`));
  };
  const silent = setTimeout(() => cut(new Error('Connection terminated: no answer came in time')), timeoutMs);
  stream.on('data', count);
  try {
    client.query(pipelineOf(statements, { prepared: statementsOn(client), schemaVersion }, { resolve, reject }));
    return await promise;
  } finally {
    clearTimeout(silent);
    stream.off('data', count);
  }
};

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
