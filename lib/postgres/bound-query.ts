import { type ClientBase, DatabaseError, type Submittable } from 'pg';
import { type Wire, doneOf, wireOf } from './wire.ts';
import { tooMuch } from './answer-too-large.ts';
import { type Parameter, needsTypes, parametersOf, textsOf } from './parameters.ts';

/** One statement as the server takes it: parameters are `$1`, `$2`, … */
export interface Statement {
  readonly sql: string;
  readonly params: readonly unknown[];
}

const maxRows = 10_000;
export const maxBytes = 16 * 1024 * 1024;

interface Column {
  readonly name: string;
  readonly type: number;
}

export interface Answer {
  readonly columns: readonly Column[];
  /** As the server writes the values. */
  readonly rows: readonly (readonly (string | null)[])[];
  readonly rowCount: number;
}

interface Fields {
  readonly fields: readonly { readonly name: string; readonly dataTypeID: number }[];
}

type Parts = Submittable & Record<string, unknown>;

const ignore = (): void => undefined;

/** All messages of one statement as one write. */
const corked = ({ stream }: Wire, write: () => void): void => {
  stream.cork();
  write();
  stream.uncork();
};

const sendBound = (wire: Wire, values: readonly (string | null)[]): void => {
  wire.bind({ values });
  wire.describe({ type: 'P' });
  wire.execute();
  wire.sync();
};

interface Exchange {
  readonly submit: (wire: Wire) => void;
  /** Whether the server has received the end of the message: after an error it waits for that. */
  readonly isSynced: () => boolean;
}

/** The statement, and when it is sent. */
const exchangeOf = (sql: string, params: readonly Parameter[]): Exchange => {
  let synced = false;
  const sendRest = (wire: Wire, types: readonly number[]): void => {
    synced = true;
    corked(wire, () => sendBound(wire, textsOf(params, types)));
  };
  const requestTypes = (wire: Wire): void => {
    const answer = ({ dataTypeIDs }: { readonly dataTypeIDs: readonly number[] }): void => sendRest(wire, dataTypeIDs);
    wire.once('parameterDescription', answer);
    wire.once('readyForQuery', () => wire.off('parameterDescription', answer));
    wire.describe({ type: 'S' });
    wire.flush();
  };
  return {
    isSynced: () => synced,
    submit: (wire) =>
      corked(wire, () => {
        wire.parse({ text: sql });
        if (needsTypes(params)) requestTypes(wire);
        else sendRest(wire, []);
      }),
  };
};

interface Outcome {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

const boundQuery = ({ submit, isSynced }: Exchange, firstOnly: boolean, { resolve, reject }: Outcome): Parts => {
  const rows: (string | null)[][] = [];
  let columns: Column[] = [];
  let count = 0;
  let tag = '';
  return {
    submit: (connection) => submit(connection as unknown as Wire),
    handleRowDescription: ({ fields }: Fields) => {
      // The name of the statement and of the portal.
      columns = fields.map(({ name, dataTypeID }) => ({ name, type: dataTypeID }));
    },
    handleDataRow: ({ fields }: { readonly fields: (string | null)[] }) => {
      count += 1;
      if (count === 1 || !firstOnly) rows.push(fields);
      if (count > maxRows) rows.length = firstOnly ? 1 : 0;
    },
    handleEmptyQuery: ignore,
    handlePortalSuspended: ignore,
    handleCopyData: ignore,
    handleCopyInResponse: (wire: Wire) => {
      // The server took our Sync for data.
      wire.sendCopyFail('there is nothing to copy from');
      wire.sync();
    },
    handleCommandComplete: ({ text }: { readonly text: string }) => {
      tag = text;
    },
    handleError: (error: unknown, wire: Wire) => {
      if (!(error instanceof DatabaseError) || error.severity !== 'ERROR') return reject(error);
      if (!isSynced()) wire.sync();
      // Then the client knows in what state the transaction is.
      const end = (): void => {
        wire.off('readyForQuery', end).off('end', end);
        reject(error);
      };
      wire.once('readyForQuery', end).once('end', end);
    },
    handleReadyForQuery: () => {
      if (count > maxRows && !firstOnly) reject(tooMuch(`${count} rows, more than ${maxRows}`));
      else resolve({ columns, rows, rowCount: doneOf(tag).rowCount });
    },
  };
};

/**
 * Runs one statement, its parameters apart from it. Beyond 16 MB on the socket the connection is cut: a single value
 * can be 1 GB, and pg would keep it whole.
 * @param firstOnly only the first row is kept, and the rest not counted
 * @throws {AnswerTooLarge} above 10,000 rows or 16 MB
 * @throws {RangeError} when parameters are nested deeper than can be written
 * @throws what pg throws
 */
export const runBound = async (client: ClientBase, statement: Statement, firstOnly = false): Promise<Answer> => {
  const { stream } = wireOf(client);
  const exchange = exchangeOf(statement.sql, parametersOf(statement.params));
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  let bytes = 0;
  const count = ({ length }: Buffer): void => {
    bytes += length;
    if (bytes <= maxBytes) return;
    reject(tooMuch(`more than ${maxBytes / 1024 / 1024} MB`));
    stream.destroy();
  };
  stream.on('data', count);
  try {
    client.query(boundQuery(exchange, firstOnly, { resolve, reject }));
    return await promise;
  } finally {
    stream.off('data', count);
  }
};
