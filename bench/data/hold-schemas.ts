import { schemaOf } from '#domain/data-api/schema/introspect.ts';
import type { DataSchema } from '#domain/data-api/schema/schema.ts';

/** A process that does nothing but hold so many schemas, each made from a text of its own. */
const tables = 20;
const columns = 10;

const columnRow = (index: number): unknown[] => [
  `column_${index}`,
  'character varying(40)',
  'varchar',
  true,
  `'none'::text`,
  false,
  null,
  null,
];

const tablePart = (index: number): string[] => {
  const list = [['id', 'bigint', 'int8', true, 'generated as identity', true, null, null]];
  const parent = ['parent', 'bigint', 'int8', false, null, false, null, null];
  const others = Array.from({ length: columns - 2 }, (_, column) => columnRow(column));
  const key = [`table_${index}_parent_fkey`, `table_${Math.max(index - 1, 0)}`, ['parent'], ['id']];
  const head = ['r', null, true, 28, [[true, ['id']]], true];
  return [
    'table',
    `table_${index}`,
    ...[head, [...list, parent, ...others], [key]].map((part) => JSON.stringify(part)),
  ];
};

const texts = JSON.stringify(Array.from({ length: tables }, (_, index) => tablePart(index)));
const held: DataSchema[] = [];
for (let made = 0; made < Number(process.env['BENCH_SCHEMAS']); made += 1) {
  const schema = schemaOf([['schema', '', String(made), '[]', null], ...(JSON.parse(texts) as string[][])]);
  // Requests to all of its tables have been answered.
  for (const table of schema.tables.values()) void [table.columns, table.kind, table.relationships];
  held.push(schema);
}
globalThis.gc?.();
process.send?.({ type: 'ready', port: held.length });
const alive = setInterval(() => void held.length, 60_000);
const leave = (): void => {
  clearInterval(alive);
  process.exit(0);
};
process.once('SIGTERM', leave);
process.once('disconnect', leave);
