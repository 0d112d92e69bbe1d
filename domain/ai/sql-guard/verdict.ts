/** Why a statement is refused. */
export interface Reason {
  /** Which fence, for programs. */
  readonly rule:
    | 'empty'
    | 'too_long'
    | 'text'
    | 'syntax'
    | 'several_statements'
    | 'word'
    | 'statement'
    | 'clause'
    | 'schema'
    | 'function'
    | 'operator'
    | 'type'
    | 'role';
  /** For people. */
  readonly message: string;
  /** Where in the text, in characters from 1 on. */
  readonly at?: number;
}

/** Names that only a database can resolve. */
export interface UsedNames {
  /** Names of the server's own functions; a project may have functions of the same name. */
  readonly functions: readonly string[];
  /** `x.name` is a column, or a call of the function with x. */
  readonly fields: readonly string[];
  readonly operators: readonly string[];
  /** The objects that are created or changed, views and sequences included. */
  readonly targets: readonly string[];
}

export interface Allowed {
  readonly allowed: true;
  /** In capitals, e.g. `CREATE TABLE`. */
  readonly command: string;
  /** The tables that are made or changed, or read from; of policies their names, too. After a rename, the new name. */
  readonly objects: { readonly tables: readonly string[]; readonly policies: readonly string[] };
  readonly uses: UsedNames;
  /** It has to run outside a transaction: CREATE INDEX CONCURRENTLY. */
  readonly concurrently: boolean;
}

export interface Refused {
  readonly allowed: false;
  /** At least one, in the order of the text. */
  readonly reasons: readonly Reason[];
}

export type Verdict = Allowed | Refused;

/** A reason whose position is still in bytes from 0 on, as the parser counts. */
export interface Finding extends Omit<Reason, 'at'> {
  readonly byte?: number | undefined;
}
