import { z } from 'zod';
import { text } from '#api/fields.ts';
import { projectPath, tablePath } from './database.ts';

const newName = text(63, 1);
const expression = text(10_000, 1);
const comment = text(10_000).nullable();
const columns = z.array(newName).min(1).max(32);

const flag = z.enum(['true', 'false']).default('false');

export const dryRun = z.object({ dry_run: flag.describe('true: answers the SQL, and nothing runs.') });

/** As `dryRun`, for what others may depend on. */
export const dropping = dryRun.extend({ cascade: flag.describe('true: drops what depends on it, too.') });

export const sqlAnswer = z.object({ sql: z.string().describe('What ran, or with dry_run would run.') });

const partName = text(1000, 1);
export const constraintPath = tablePath.extend({ constraint: partName });
export const indexPath = tablePath.extend({ index: partName });
export const policyPath = tablePath.extend({ policy: partName });
export const enumPath = projectPath.extend({ enum: partName });

export const tablePatch = z.strictObject({
  name: newName.optional(),
  comment: comment.optional(),
  row_level_security: z.strictObject({ enabled: z.boolean().optional(), forced: z.boolean().optional() }).optional(),
});

export const columnPatch = z.strictObject({
  name: newName.optional(),
  type: text(200, 1).optional(),
  using: expression.optional().describe('An SQL expression that makes the new values; left out: a cast.'),
  default: expression.nullable().optional().describe('An SQL expression; null takes the default away.'),
  nullable: z.boolean().optional(),
  comment: comment.optional(),
});

const action = z.enum(['no action', 'restrict', 'cascade', 'set null', 'set default']).default('no action');

export const newConstraint = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('primary_key'), name: newName.optional(), columns }),
  z.strictObject({ kind: z.literal('unique'), name: newName.optional(), columns }),
  z.strictObject({ kind: z.literal('check'), name: newName.optional(), expression }),
  z.strictObject({
    kind: z.literal('foreign_key'),
    name: newName.optional(),
    columns,
    references: z.strictObject({
      table: text(1000, 1),
      columns: columns.optional().describe('Left out: the primary key.'),
    }),
    on_delete: action,
    on_update: action,
  }),
]);

export const newIndex = z.strictObject({
  name: newName.optional(),
  method: z.enum(['btree', 'hash', 'gin', 'gist', 'spgist', 'brin', 'hnsw', 'ivfflat']).default('btree'),
  unique: z.boolean().default(false),
  columns: z
    .array(
      z.strictObject({
        column: newName.optional(),
        expression: expression.optional(),
        operator_class: newName.optional(),
        direction: z.enum(['asc', 'desc']).optional(),
      }),
    )
    .min(1)
    .max(32),
  include: z.array(newName).max(32).optional(),
  predicate: expression.optional().describe('An SQL condition: only these rows are indexed.'),
});

const roles = z
  .array(z.enum(['public', 'anon', 'authenticated']))
  .min(1)
  .max(3);

export const newPolicy = z.strictObject({
  name: newName,
  command: z.enum(['all', 'select', 'insert', 'update', 'delete']).default('all'),
  permissive: z.boolean().default(true),
  roles: roles.default(['public']),
  using: expression.optional().describe('Which rows are seen.'),
  check: expression.optional().describe('Which rows may be written.'),
});

export const policyPatch = z.strictObject({
  name: newName.optional(),
  roles: roles.optional(),
  using: expression.optional(),
  check: expression.optional(),
});

export const newEnum = z.strictObject({ name: newName, values: z.array(newName).min(1).max(1000) });

export const enumPatch = z.strictObject({
  name: newName.optional(),
  add: z.strictObject({ value: newName, before: newName.optional(), after: newName.optional() }).optional(),
  rename: z.strictObject({ from: newName, to: newName }).optional(),
});

const values = z.record(z.string().max(63), z.unknown());

export const rowChanges = z.strictObject({
  changes: z
    .array(
      z.discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('insert'), values }),
        z.strictObject({
          kind: z.literal('update'),
          key: values.describe('The values of the primary key.'),
          old: values.default({}).describe('What was seen: a row that has other values by now is a conflict.'),
          values,
        }),
        z.strictObject({ kind: z.literal('delete'), key: values, old: values.default({}) }),
      ]),
    )
    .min(1)
    .max(1000),
});
