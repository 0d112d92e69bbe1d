import { z } from 'zod';
import { model } from './shapes.ts';
import { text } from '../fields.ts';

export const generateBody = z.strictObject({
  prompt: text(10_000, 1).describe('What is wished, in plain words.'),
  model: model.optional().describe('Left out: a model of the first configured provider.'),
});

export const applyBody = z.strictObject({
  sql: text(64 * 1024).describe('One statement.'),
  approved: z.unknown().optional().describe('Has to be true: a person has seen the statement and wants it.'),
});

const reason = z.object({
  rule: z.string(),
  message: z.string(),
  at: z.int().optional().describe('Where in the text, in characters from 1 on.'),
});

const judged = {
  sql: z.string(),
  allowed: z.boolean().describe('Whether it would be run as it is.'),
  reasons: z.array(reason).describe('Why it would not.'),
};

const statements = z
  .array(z.object(judged))
  .describe('Each statement by itself, as they are applied; empty if unreadable.');
const names = z.array(z.string());
const explanation = z.string();

export const generatedSchema = z.object({ ...judged, tables: names, explanation, statements });
export const generatedRls = z.object({ ...judged, policies: names, explanation, statements });
export const generatedSql = z.object({
  ...judged,
  explanation,
  results: z.array(z.record(z.string(), z.unknown())).optional().describe('With execute: at most 1,000 rows.'),
  row_count: z.int().optional(),
  truncated: z.boolean().optional().describe('There are more rows than these.'),
  execution_error: z
    .object({ code: z.string(), message: z.string(), details: z.unknown(), hint: z.string().nullable() })
    .optional()
    .describe('Why there are no results.'),
});

const applied = { applied: z.literal(true), command: z.string(), sql: z.string() };
export const appliedSchema = z.object({ ...applied, tables: names });
export const appliedRls = z.object({ ...applied, policies: names });
