import type { ClientBase } from 'pg';

/** One object of the schema with the statement that makes it. */
export interface Item {
  /** The catalog and the object's number in it, as `pg_depend` names it: `pg_class:16402`. */
  readonly key: string;
  readonly rank: Rank;
  /** Qualified and quoted; orders what has the same rank. */
  readonly name: string;
  /** Without the semicolon. */
  readonly sql: string;
}

/** The order of objects without dependencies. */
export const ranks = {
  schema: 0,
  extension: 1,
  type: 2,
  sequence: 3,
  function: 4,
  table: 5,
  view: 6,
  materialized: 7,
  ownedBy: 8,
  default: 9,
  constraint: 10,
  index: 11,
  attach: 12,
  reference: 13,
  statistics: 14,
  rule: 15,
  trigger: 16,
  security: 17,
  policy: 18,
  comment: 19,
  revoke: 20,
  grant: 21,
} as const;
export type Rank = (typeof ranks)[keyof typeof ranks];

/** Another number under which `pg_depend` knows an object: a table's row type, a view's rule, a key's index. */
export interface Alias {
  readonly key: string;
  readonly of: string;
}

/** The catalog of one database, read in one snapshot. */
export interface Catalog {
  readonly client: ClientBase;
  /** The numbers of the schemas that are the project's. */
  readonly schemas: readonly number[];
}

/** Runs a query whose `$1`, if it has one, are the schemas. */
export const read = async <T extends object>({ client, schemas }: Catalog, sql: string): Promise<T[]> =>
  (await client.query<T>(sql, sql.includes('$1') ? [schemas] : [])).rows;

/** SQL: the object is not part of an extension. */
export const isOwn = (catalog: string, oid: string): string =>
  `not exists (select from pg_depend e where e.classid = '${catalog}'::regclass and e.objid = ${oid} and e.deptype = 'e')`;

/** Rows of `key`, `name` and `sql` as items of one rank. */
export const readItems = async (catalog: Catalog, rank: Rank, sql: string): Promise<Item[]> =>
  (await read<Omit<Item, 'rank'>>(catalog, sql)).map((row) => ({ ...row, rank }));
