import type { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';
import type { ClientBase } from 'pg';

/** What pg's connection can and does not declare. */
export interface Wire extends EventEmitter {
  readonly stream: Duplex;
  /** The simple protocol: one or several statements. */
  readonly query: (text: string) => void;
  /** The extended protocol: one statement, parameters apart. */
  readonly parse: (statement: { readonly text: string; readonly name?: string }) => void;
  readonly bind: (portal: { readonly values: readonly (string | null)[]; readonly statement?: string }) => void;
  /** Of a named statement. */
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

/** What a statement did. */
export interface Done {
  readonly command: string;
  readonly rowCount: number;
}

/** Of a command tag: `INSERT 0 3`, `SELECT 5`, `CREATE TABLE`. */
export const doneOf = (tag: string): Done => {
  const [, command = '', first, second] = /^([A-Za-z]+)(?: (\d+))?(?: (\d+))?/.exec(tag) ?? [];
  return { command, rowCount: Number(second ?? first ?? 0) };
};
