import { z } from 'zod';

const sql = z.string().trim().min(1).max(60_000).describe('The SQL for PostgreSQL 17.');
const explanation = z.string().describe('What it does and why, in a few plain sentences.');
const names = (of: string) => z.array(z.string()).describe(`The names of the ${of}.`);

/** The shape of a model's answer, by generator (interface, "AI database tool payloads"). */
export const answerShapes = {
  schema: z.object({ sql, tables: names('tables that it makes or changes'), explanation }),
  rls: z.object({ sql, policies: names('policies that it makes or changes'), explanation }),
  sql: z.object({ sql, explanation }),
} as const;

export type GeneratorName = keyof typeof answerShapes;
export type GeneratedAnswer<Name extends GeneratorName> = z.output<(typeof answerShapes)[Name]>;
