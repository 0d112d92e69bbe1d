import { Client } from 'pg';
import { createGraphs } from '#domain/data-api/graphql/schema.ts';
import { introspectionOf, schemaOf } from '#domain/data-api/schema/introspect.ts';
import { signUp } from '../client.ts';
import { type Benchmark, digits, median, megabytes, ms, spread } from '../harness.ts';
import { memoryOf } from '../proc.ts';
import { requiredIn } from '../settings.ts';
import { createDataProject, databaseUrlOf, runSql } from './scene.ts';

const tables = 100;
const columns = 15;
const rounds = 30;

// Each refers to the one before it, and has an index beside its key.
const manyTables = `do $$ begin
  for t in 1..${tables} loop
    execute format('create table table_%s (id bigint generated always as identity primary key, parent bigint references table_%s, %s)', t,
      greatest(t - 1, 1), (select string_agg(format('column_%s %s', c, (array['text', 'int', 'timestamptz default now()', 'jsonb', 'numeric not null default 0'])[c % 5 + 1]), ', ')
        from generate_series(1, ${columns - 2}) c));
    execute format('create index on table_%s (parent)', t);
  end loop;
end $$`;

export const introspect: Benchmark = {
  name: 'data/introspect',
  run: async (bench) => {
    const url = requiredIn(bench.env, 'PLINTH_TEST_BASE_URL');
    const user = await signUp(url);
    const project = await createDataProject(url, user);
    await runSql(url, user, project, manyTables);
    const client = new Client({ connectionString: databaseUrlOf(bench, project) });
    await client.connect();
    const [times, parsing]: [number[], number[]] = [[], []];
    for (let round = 0; round < rounds; round += 1) {
      const began = performance.now();
      const { text, params } = introspectionOf('public');
      const { rows } = await client.query<(string | null)[]>({ text, values: [...params], rowMode: 'array' });
      const answered = performance.now();
      const { size } = schemaOf(rows).tables;
      times.push(performance.now() - began);
      parsing.push(performance.now() - answered);
      if (size !== tables) throw new Error(`${size} tables were found`);
    }
    await client.end();
    return [
      {
        name: `introspection of ${tables} tables with ${columns} columns`,
        ours: ms(median(times)),
        target: { of: 'ours', atMost: 30 },
        notes: [
          `${rounds} times: ${spread(times)} ms; the first, on a fresh connection: ${digits(times[0] ?? 0)} ms`,
          `of it making the schema from JSON: ${digits(median(parsing))} ms`,
        ],
      },
    ];
  },
};

const cached = 1000;

const holder = (name: string, schemas: number) => ({
  name,
  file: 'bench/data/hold-schemas.ts',
  nodeArgs: ['--expose-gc'],
  env: { BENCH_SCHEMAS: String(schemas) },
});

export const schemaMemory: Benchmark = {
  name: 'data/schema-memory',
  run: async (bench) => {
    const [full, empty] = [
      await bench.servers.start(holder('schemas', cached)),
      await bench.servers.start(holder('no-schemas', 0)),
    ];
    const [held, bare] = [memoryOf(full.pid), memoryOf(empty.pid)];
    return [
      {
        name: `memory of ${cached} cached schemas, all of their tables parsed`,
        ours: megabytes(held.rssMb - bare.rssMb),
        target: { of: 'ours', atMost: 200 },
        notes: [`20 tables of 10 columns each; RSS ${digits(held.rssMb)} MB, without them ${digits(bare.rssMb)} MB`],
      },
    ];
  },
};

const wide = { tables: 10_000, columns: 5 };

/** As the database describes them. */
const describedTables = (): (string | null)[][] => {
  const names = Array.from({ length: wide.columns }, (_, column) => `column_${column}`);
  const list = JSON.stringify(names.map((name) => [name, 'integer', 'int4', false, null, false, null, null]));
  const head = JSON.stringify(['r', null, true, 28, [[true, ['column_0']]], true]);
  const parts = Array.from({ length: wide.tables }, (_, table) => ['table', `table_${table}`, head, list, null]);
  return [['schema', '', '1', '["int4"]', null], ...parts];
};

const query = '{ table_7(where: {column_1: {_eq: 1}}, order_by: {column_2: asc}) { column_0 column_1 } }';

export const largeSchema: Benchmark = {
  name: 'data/large-schema',
  run: () => {
    const parts = describedTables();
    const [making, reading]: [number[], number[]] = [[], []];
    for (let round = 0; round < rounds; round += 1) {
      const began = performance.now();
      const schema = schemaOf(parts);
      const made = performance.now();
      const { errors } = createGraphs()('project', schema).read(query);
      making.push(made - began);
      reading.push(performance.now() - made);
      if (errors) throw new AggregateError(errors);
    }
    const name = `${wide.tables.toLocaleString('en')} tables of ${wide.columns} columns`;
    return Promise.resolve([
      {
        name: `${name}: parsed after a change of the schema`,
        ours: ms(median(making)),
        target: { of: 'ours', atMost: 25 },
        notes: [`${rounds} times: ${spread(making)} ms`],
      },
      {
        name: `${name}: the first GraphQL document`,
        ours: ms(median(reading)),
        target: { of: 'ours', atMost: 10 },
        notes: [`${rounds} times: ${spread(reading)} ms`],
      },
    ]);
  },
};
