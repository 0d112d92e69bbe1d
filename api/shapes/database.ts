import { z } from 'zod';
import { id, namedObject, namedBody, text } from '#api/fields.ts';

export const area = 'database';

export const projectPath = z.object({ project_id: id });
// The catalog answers for longer names: there are none.
const relationName = text(1000, 1);
export const tablePath = z.object({ project_id: id, table: relationName });
export const columnPath = z.object({ project_id: id, table: relationName, column: relationName });

const newName = text(63, 1);

export const newColumn = namedBody('NewColumn', {
  name: newName,
  type: text(200, 1).describe('A type of the database: text, varchar(40), numeric(10,2), integer[], bigserial, …'),
  primary_key: z.boolean().default(false),
  nullable: z.boolean().default(true),
  default: text(10_000, 1).nullish().describe('An SQL expression, as now() or ’draft’.'),
});

export const newTable = namedBody('NewTable', { name: newName, columns: z.array(newColumn).max(1600) });

export const tableEntry = namedObject('ListedTable', {
  name: z.string(),
  columns: z.int(),
  rows: z.int().describe('Counted where that is cheap, else the server’s estimate.'),
});

export const column = namedObject('Column', {
  name: z.string(),
  type: z.string(),
  nullable: z.boolean(),
  primary_key: z.boolean(),
  default: z.string().nullable(),
  generated: z.enum(['always', 'by_default', 'stored', 'virtual']).nullable(),
  comment: z.string().nullable(),
  enum_values: z.array(z.string()).nullable(),
});

const names = z.array(z.string());

const foreignKey = namedObject('ForeignKey', {
  name: z.string(),
  columns: names,
  references: z.object({ schema: z.string(), table: z.string(), columns: names }),
  on_update: z.string(),
  on_delete: z.string(),
});

const index = namedObject('Index', {
  name: z.string(),
  columns: names,
  unique: z.boolean(),
  primary: z.boolean(),
  valid: z.boolean(),
  method: z.string(),
  predicate: z.string().nullable(),
  definition: z.string(),
});

const policy = namedObject('Policy', {
  name: z.string(),
  command: z.enum(['ALL', 'SELECT', 'INSERT', 'UPDATE', 'DELETE']),
  permissive: z.boolean(),
  roles: names,
  using: z.string().nullable(),
  check: z.string().nullable(),
});

export const tableDescription = namedObject('Table', {
  name: z.string(),
  kind: z.enum(['table', 'partitioned', 'view', 'materialized', 'foreign']),
  comment: z.string().nullable(),
  columns: z.array(column),
  primary_key: names,
  foreign_keys: z.array(foreignKey),
  indexes: z.array(index),
  uniques: z.array(z.object({ name: z.string(), columns: names })),
  checks: z.array(z.object({ name: z.string(), expression: z.string() })),
  row_level_security: z.object({ enabled: z.boolean(), forced: z.boolean(), policies: z.array(policy) }),
});

const schemaIndex = index
  .omit({ columns: true, predicate: true })
  .extend({ scans: z.int().describe('0: never used since the statistics began.'), bytes: z.int() });

const schemaTable = namedObject('SchemaTable', {
  schema: z.string(),
  name: z.string(),
  kind: tableDescription.shape.kind,
  comment: z.string().nullable(),
  columns: z.array(column.omit({ primary_key: true })),
  primary_key: names,
  foreign_keys: z.array(foreignKey),
  checks: tableDescription.shape.checks,
  indexes: z.array(schemaIndex),
  policies: z.array(policy),
  triggers: z.array(z.object({ name: z.string(), enabled: z.boolean(), definition: z.string() })),
  rls: z.object({ enabled: z.boolean(), forced: z.boolean() }),
  row_estimate: z.int().nullable().describe('The server’s; null: it has none yet.'),
});

export const wholeSchema = namedObject('Schema', {
  schemas: names,
  tables: z.array(schemaTable),
  enums: z.array(z.object({ schema: z.string(), name: z.string(), values: names })),
  functions: z.array(
    z.object({
      schema: z.string(),
      name: z.string(),
      arguments: z.string(),
      returns: z.string().nullable(),
      language: z.string(),
      volatility: z.enum(['immutable', 'stable', 'volatile']),
      security_definer: z.boolean(),
    }),
  ),
});

export const queryAnswer = namedObject('QueryAnswer', {
  rows: z.array(z.record(z.string(), z.unknown())),
  row_count: z.int().describe('What came back, or what was changed.'),
  truncated: z.literal(true).optional().describe('There were more than 10,000 rows or 16 MB.'),
  columns: z.array(z.object({ name: z.string(), type: z.string() })),
  command: z
    .string()
    .nullable()
    .describe('As the server names it: SELECT, CREATE TABLE. Null when the rest was not asked for.'),
});

export const slowQuery = namedObject('SlowQuery', {
  query: z.string(),
  calls: z.number(),
  total_ms: z.number(),
  mean_ms: z.number(),
  max_ms: z.number(),
  rows: z.number(),
});
