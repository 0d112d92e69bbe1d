import { Client } from 'pg';
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
      const { size } = schemaOf(rows[0] ?? []).tables;
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
        name: `memory of ${cached} cached schemas`,
        ours: megabytes(held.rssMb - bare.rssMb),
        target: { of: 'ours', atMost: 200 },
        notes: [`20 tables of 10 columns each; RSS ${digits(held.rssMb)} MB, without them ${digits(bare.rssMb)} MB`],
      },
    ];
  },
};
