import { z } from 'zod';
import { inDatabase } from '#domain/database-servers/database-servers.ts';
import { planLimits } from '#domain/database-servers/limits.ts';
import { readUsage, readUsageInTurn } from '#domain/database/usage.ts';
import { type SizeRange, readSizes, sizeRanges } from '#domain/stats/project-sizes.ts';
import { type StatRange, readStats, statRanges } from '#domain/stats/project-stats.ts';
import { surfaces } from '#domain/stats/surfaces.ts';
import { inProject } from '../access.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, instant } from '../fields.ts';

const point = z.object({
  at: instant,
  surface: z.enum(surfaces),
  requests: z.int(),
  errors: z.int().describe('Answers of 500 and above.'),
  p95_ms: z.number().nullable().describe('An upper bound of it; null: more than 30 s.'),
});

const tableGrowth = z.object({
  schema: z.string(),
  name: z.string(),
  bytes: z.int().describe('With its indexes.'),
  bytes_before: z.int().nullable().describe('At the beginning of the range; null: not among the largest then.'),
});

/** The traffic of a project, and how its database grows. */
export const statsEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/stats',
    area: 'projects',
    summary: 'Requests, errors and times by surface, and the size of the database',
    access: inProject('viewer'),
    params: z.object({ project_id: id }),
    query: z.object({
      range: z
        .enum(Object.keys(statRanges) as StatRange[])
        .default('24h')
        .describe('1h by minute, the others by hour. Counts are written every ten seconds.'),
    }),
    response: z.object({
      points: z.array(point).describe('The oldest first; times without requests are left out.'),
      database_bytes: z.int().nullable().describe('Null while the project has no database.'),
    }),
    handle: async ({ query: { range } }, { db, deps, project }) => {
      const points = await readStats(db, project.id, range);
      const database =
        project.status === 'active'
          ? await readUsageInTurn(project.id, () => inDatabase(deps.servers, project, readUsage))
          : null;
      return { points, database_bytes: database?.bytes ?? null };
    },
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/stats/sizes',
    area: 'projects',
    summary: 'The size of the database over time, and its largest tables',
    access: inProject('viewer'),
    params: z.object({ project_id: id }),
    query: z.object({
      range: z
        .enum(Object.keys(sizeRanges) as SizeRange[])
        .default('30d')
        .describe('1y by day, the others by hour. Measured within a minute after something was written.'),
    }),
    response: z.object({
      points: z
        .array(z.object({ at: instant, bytes: z.int() }))
        .describe(
          'The oldest first. Each size lasted until the next; the first may be from before the range, which began with it.',
        ),
      limit: z.int().describe('Of the plan, in bytes.'),
      tables: z.array(tableGrowth).max(10).describe('The largest first, as they were last measured.'),
    }),
    handle: async ({ query: { range } }, { db, project }) => {
      const { points, tables } = await readSizes(db, project.id, range);
      return { points: [...points], limit: planLimits[project.plan].databaseBytes, tables: [...tables] };
    },
  }),
];
