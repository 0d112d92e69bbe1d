import type { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';
import type { ClientBase } from 'pg';

/** Methods of pg's connection that its types do not declare. */
export interface Wire extends EventEmitter {
  readonly stream: Duplex;
  /** The simple protocol: one or several statements. */
  readonly query: (text: string) => void;
  /** The extended protocol: one statement, parameters apart. */
  readonly parse: (statement: { readonly text: string; readonly name?: string }) => void;
  readonly bind: (portal: { readonly values: readonly (string | null)[]; readonly statement?: string }) => void;
  /** The name of a named statement. */
  readonly close: (what: { readonly type: 'S'; readonly name: string }) => void;
  /** `S`: the statement's parameters, `P`: the columns of what is bound. */
  readonly describe: (what: { readonly type: 'S' | 'P' }) => void;
  readonly execute: () => void;
  readonly flush: () => void;
  readonly sync: () => void;
  readonly sendCopyFail: (message: string) => void;
}

export const wireOf = (client: ClientBase): Wire => (client as unknown as { readonly connection: Wire }).connection;

/** The number of the server's process for a connection. */
export const processOf = (client: ClientBase): number =>
  (client as unknown as { readonly processID: number }).processID;

/** One execution of a prepared statement. */
export interface Execution {
  /** Its name: ASCII. */
  readonly statement: string;
  /** In the server's text form. */
  readonly values: readonly (string | null)[];
}

const bindCode = 0x42;
const executeMessage = Buffer.from([0x45, 0, 0, 0, 9, 0, 0, 0, 0, 0]);
const syncMessage = Buffer.from([0x53, 0, 0, 0, 4]);
// Code, length, portal, end of the name, formats of the parameters, their number, formats of the columns.
const emptyBind = 1 + 4 + 1 + 1 + 2 + 2 + 2;

const bindLength = ({ statement, values }: Execution): number =>
  values.reduce(
    (sum, value) => sum + 4 + (value === null ? 0 : Buffer.byteLength(value)),
    emptyBind + statement.length,
  );

const writeValue = (into: Buffer, value: string | null, at: number): number => {
  if (value === null) return into.writeInt32BE(-1, at);
  const written = into.write(value, at + 4);
  into.writeInt32BE(written, at);
  return at + 4 + written;
};

/** The unnamed portal, and all that comes and goes as text. */
const writeBind = (into: Buffer, { statement, values }: Execution, length: number, from: number): number => {
  into[from] = bindCode;
  into.writeInt32BE(length - 1, from + 1);
  into[from + 5] = 0;
  let at = from + 6 + into.write(statement, from + 6, 'latin1');
  into[at] = 0;
  into.writeInt16BE(0, at + 1);
  at = into.writeUInt16BE(values.length, at + 3);
  for (const value of values) at = writeValue(into, value, at);
  return into.writeInt16BE(0, at);
};

/**
 * Bind and Execute for each, and one Sync, as the bytes of one write (PostgreSQL, "Message Formats"): pg makes a buffer
 * of each message, and joining eight of them costs as much as sending them.
 */
export const executionsOf = (executions: readonly Execution[]): Buffer => {
  const lengths = executions.map(bindLength);
  const total = lengths.reduce((sum, length) => sum + length + executeMessage.length, syncMessage.length);
  const bytes = Buffer.allocUnsafe(total);
  let at = 0;
  for (const [index, execution] of executions.entries()) {
    at = writeBind(bytes, execution, lengths[index] ?? 0, at);
    at += executeMessage.copy(bytes, at);
  }
  syncMessage.copy(bytes, at);
  return bytes;
};

/** The effect of a statement. */
export interface Done {
  readonly command: string;
  readonly rowCount: number;
}

/** Parses a command tag: `INSERT 0 3`, `SELECT 5`, `CREATE TABLE`. */
export const doneOf = (tag: string): Done => {
  const [, command = '', first, second] = /^([A-Za-z]+)(?: (\d+))?(?: (\d+))?/.exec(tag) ?? [];
  return { command, rowCount: Number(second ?? first ?? 0) };
};
