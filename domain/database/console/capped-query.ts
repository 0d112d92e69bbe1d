import { type ClientBase, DatabaseError, type Submittable } from 'pg';
import { type Wire, wireOf } from '#lib/postgres/wire.ts';
import { setImmediate as breathe } from 'node:timers/promises';
import { type ToJson, toExactJsonOf } from '#lib/postgres/values.ts';

const maxRows = 10_000;
const keptBytes = 16 * 1024 * 1024;
// A single value can be 1 GB, and pg would keep it whole.
const maxBytes = 32 * 1024 * 1024;
// After so many rows the bytes are checked, before the server sends more.
const rowsAtATime = 1000;

const statementName = 'plinth_console';

interface CappedWire extends Wire {
  readonly describe: (what: { readonly type: 'S' | 'P'; readonly name?: string }) => void;
  /** At most so many rows; the next call goes on. */
  readonly execute: (how?: { readonly rows: number }) => void;
}

interface CappedColumn {
  readonly name: string;
  readonly type: number;
  readonly modifier: number;
}

export interface Described {
  readonly parameterTypes: readonly number[];
  readonly columns: readonly CappedColumn[];
}

export interface CappedRows {
  /** As the server writes the values. */
  readonly rows: readonly (readonly (string | null)[])[];
  /** There were more. */
  readonly truncated: boolean;
  /** The command tag, e.g. `INSERT 0 3`; null when the rest was not asked for. */
  readonly tag: string | null;
}

/** More came than is taken at once, and the connection was cut before the statement was committed. */
export class Overflow extends Error {
  override readonly name = 'Overflow';
}

type Parts = Submittable & Record<string, unknown>;

const ignore = (): void => undefined;

const corked = ({ stream }: Wire, write: () => void): void => {
  stream.cork();
  write();
  stream.uncork();
};

/** Waits until the client knows in what state the session is. */
const afterReady = (wire: Wire, settle: () => void): void => {
  const end = (): void => {
    wire.off('readyForQuery', end).off('end', end);
    settle();
  };
  wire.once('readyForQuery', end).once('end', end);
};

const isRefusal = (error: unknown): boolean => error instanceof DatabaseError && error.severity === 'ERROR';

interface Fields {
  readonly fields: readonly {
    readonly name: string;
    readonly dataTypeID: number;
    readonly dataTypeModifier: number;
  }[];
}

/**
 * Has the server parse one statement and describe its parameters and columns; nothing runs.
 * @throws what pg throws
 */
export const describeStatement = (client: ClientBase, sql: string): Promise<Described> =>
  new Promise((resolve, reject) => {
    let parameterTypes: readonly number[] = [];
    let columns: readonly CappedColumn[] = [];
    const wire: CappedWire = wireOf(client);
    const noteTypes = ({ dataTypeIDs }: { readonly dataTypeIDs: readonly number[] }): void => {
      parameterTypes = dataTypeIDs;
    };
    wire.once('parameterDescription', noteTypes);
    const settle = (end: () => void): void => {
      wire.off('parameterDescription', noteTypes);
      end();
    };
    const parts: Parts = {
      submit: () =>
        corked(wire, () => {
          // A script describes one after the other; that there is none yet is no error.
          wire.close({ type: 'S', name: statementName });
          wire.parse({ text: sql, name: statementName });
          wire.describe({ type: 'S', name: statementName });
          wire.sync();
        }),
      handleRowDescription: ({ fields }: Fields) => {
        columns = fields.map(({ name, dataTypeID, dataTypeModifier }) => ({
          name,
          type: dataTypeID,
          modifier: dataTypeModifier,
        }));
      },
      handleError: (error: unknown) => {
        const end = (): void => settle(() => reject(error));
        if (isRefusal(error)) afterReady(wire, end);
        else end();
      },
      handleReadyForQuery: () => settle(() => resolve({ parameterTypes, columns })),
    };
    client.query(parts);
  });

/** The rows that have come so far. */
class CappedBuffer {
  readonly rows: (string | null)[][] = [];
  bytes = 0;
  tag: string | null = null;
  readonly #most: number;
  #count = 0;

  constructor(max: number) {
    this.#most = max;
  }

  add(row: (string | null)[]): void {
    this.#count += 1;
    if (this.#count <= this.#most && this.bytes <= keptBytes) this.rows.push(row);
  }

  isFull(): boolean {
    return this.#count > this.#most || this.bytes > keptBytes;
  }

  /** One beyond the limit shows that there is more. */
  wanted(): number {
    return Math.min(rowsAtATime, this.#most + 1 - this.#count);
  }

  end(): CappedRows {
    return { rows: this.rows, truncated: this.#count > this.rows.length || this.tag === null, tag: this.tag };
  }
}

interface Outcome {
  readonly resolve: (rows: CappedRows) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Rows are asked for in portions and nothing is synced before the last: what a statement changed is committed with the
 * rows that are kept (RETURNING runs to its end before the first row), or undone when the connection is cut.
 */
const portions = (
  wire: CappedWire,
  values: readonly (string | null)[],
  capped: CappedBuffer,
  outcome: Outcome,
): Parts => {
  let synced = false;
  const sync = (): void => {
    if (!synced) wire.sync();
    synced = true;
  };
  const next = (): void =>
    corked(wire, () => {
      wire.execute({ rows: capped.wanted() });
      wire.flush();
    });
  return {
    submit: () => {
      wire.stream.cork();
      wire.bind({ values, statement: statementName });
      next();
      wire.stream.uncork();
    },
    handleRowDescription: ignore,
    handleDataRow: ({ fields }: { readonly fields: (string | null)[] }) => capped.add(fields),
    handlePortalSuspended: () => (capped.isFull() ? sync() : next()),
    handleEmptyQuery: () => {
      capped.tag = '';
      sync();
    },
    handleCopyData: ignore,
    handleCopyInResponse: () => wire.sendCopyFail('there is nothing to copy from'),
    handleCommandComplete: ({ text }: { readonly text: string }) => {
      capped.tag = text;
      sync();
    },
    handleError: (error: unknown) => {
      if (!isRefusal(error)) return outcome.reject(error);
      sync();
      afterReady(wire, () => outcome.reject(error));
    },
    handleReadyForQuery: () => outcome.resolve(capped.end()),
  };
};

/**
 * Runs the statement that was described last and keeps at most 10,000 rows and about 16 MB. Of a SELECT the rows beyond
 * are not computed; what INSERT, UPDATE, DELETE or MERGE change is changed whole. A connection over which more than 32
 * MB came at a stretch is cut, which undoes the statement.
 * @param mayCut answers what was kept when the connection was cut: for statements that change nothing
 * @param max rows to keep; left out: 10,000
 * @throws {Overflow} when the connection was cut
 * @throws what pg throws
 */
export const runCapped = async (
  client: ClientBase,
  values: readonly (string | null)[],
  mayCut: boolean,
  max = maxRows,
): Promise<CappedRows> => {
  const wire: CappedWire = wireOf(client);
  const capped = new CappedBuffer(max);
  const { promise, resolve, reject } = Promise.withResolvers<CappedRows>();
  const count = ({ length }: Buffer): void => {
    capped.bytes += length;
    if (capped.bytes <= maxBytes) return;
    if (mayCut) resolve({ ...capped.end(), truncated: true });
    else reject(new Overflow('more came back than is taken'));
    wire.stream.destroy();
  };
  wire.stream.on('data', count);
  try {
    client.query(portions(wire, values, capped, { resolve, reject }));
    return await promise;
  } finally {
    wire.stream.off('data', count);
  }
};

interface ConsoleColumn {
  /** The key in the rows: of several columns with one name the later ones get a number. */
  readonly name: string;
  /** As `format_type` writes it, e.g. `character varying(40)`. */
  readonly type: string;
}

export interface ReadColumn extends ConsoleColumn {
  readonly toJson: ToJson;
}

const typesSql = `
  select pg_catalog.format_type(t.oid, c.modifier) as type, t.typcategory operator(pg_catalog.=) 'A' as is_array
  from rows from (pg_catalog.unnest($1::pg_catalog.oid[]), pg_catalog.unnest($2::pg_catalog.int4[]))
    with ordinality as c (oid, modifier, position)
  left join pg_catalog.pg_type t on t.oid operator(pg_catalog.=) c.oid
  order by c.position`;

/**
 * `a`, `a_2`, `a_3`: an object cannot hold a key twice. Numbers go on where they were: counted anew for each of 1,664
 * columns of one name they took 0.2 s of the event loop, for each statement of a script.
 */
const distinct = (names: readonly string[]): string[] => {
  const taken = new Set(names);
  // The least number that may be free, by name.
  const nextNumbers = new Map<string, number>();
  return names.map((name) => {
    let number = nextNumbers.get(name) ?? 1;
    if (number > 1) while (taken.has(`${name}_${number}`)) number += 1;
    nextNumbers.set(name, number + 1);
    return number === 1 ? name : `${name}_${number}`;
  });
};

/** The names of the columns, and how their values become JSON. */
export const readColumns = async (client: ClientBase, columns: readonly CappedColumn[]): Promise<ReadColumn[]> => {
  if (columns.length === 0) return [];
  const types = columns.map(({ type }) => type);
  const modifiers = columns.map(({ modifier }) => modifier);
  const { rows } = await client.query<{ type: string | null; is_array: boolean | null }>(typesSql, [types, modifiers]);
  return distinct(columns.map(({ name }) => name)).map((name, index) => ({
    name,
    type: rows[index]?.type ?? 'unknown',
    toJson: toExactJsonOf(types[index] ?? 0, rows[index]?.is_array ?? false),
  }));
};

// Escapes and the names of columns, which each row repeats, come on top of the values.
const maxTextLength = 32 * 1024 * 1024;
const breathAfter = 1024 * 1024;

const writerOf = (columns: readonly ReadColumn[]): ((row: readonly (string | null)[]) => string) => {
  const writers = columns.map(({ name, toJson }) => ({ key: `${JSON.stringify(name)}:`, toJson }));
  return (row) => {
    const parts = writers.map(({ key, toJson }, index) => {
      const value = row[index] ?? null;
      return key + (value === null ? 'null' : toJson(value));
    });
    return `{${parts.join(',')}}`;
  };
};

/** Rows as the text of a JSON array, as far as 32 MB reach; other requests are served in between. */
export const consoleRowsText = async (
  columns: readonly ReadColumn[],
  { rows }: Pick<CappedRows, 'rows'>,
): Promise<{ text: string; count: number }> => {
  const write = writerOf(columns);
  const texts: string[] = [];
  let length = 0;
  let rested = 0;
  for (const row of rows) {
    const text = write(row);
    length += text.length;
    if (length > maxTextLength) break;
    texts.push(text);
    if (length - rested > breathAfter) {
      rested = length;
      await breathe();
    }
  }
  return { text: `[${texts.join(',')}]`, count: texts.length };
};
