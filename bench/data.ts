import { graphqlBenchmarks } from './data/graphql.ts';
import { outbox, rowLimit } from './data/limits.ts';
import { manyProjects, quietProject } from './data/projects.ts';
import { restBenchmarks } from './data/rest.ts';
import { introspect, largeSchema, schemaMemory } from './data/schema.ts';
import type { Benchmark } from './harness.ts';

/** Projects' tables over HTTP, against Koa and pg alone in the same run; many projects; what is known of schemas. */
export const dataBenchmarks: readonly Benchmark[] = [
  ...restBenchmarks,
  ...graphqlBenchmarks,
  manyProjects,
  quietProject,
  introspect,
  schemaMemory,
  largeSchema,
  rowLimit,
  outbox,
];
