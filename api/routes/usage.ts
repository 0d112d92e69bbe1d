import { z } from 'zod';
import { planLimits } from '#domain/database-servers/limits.ts';
import { inDatabase } from '#domain/database-servers/database-servers.ts';
import { readUsage, readUsageInTurn } from '#domain/database/usage.ts';
import { monthlyCaps } from '#domain/functions/functions.ts';
import { countFunctions } from '#domain/functions/store.ts';
import { storedBytesOf } from '#domain/functions/stored.ts';
import { usageOf } from '#domain/jobs/usage.ts';
import { waitingBytesOf } from '#domain/jobs/accept.ts';
import { usedOf } from '#domain/flags/store.ts';
import { quotasFrom } from '#domain/projects/plans.ts';
import { storageLimits } from '#domain/storage/limits.ts';
import { ServiceError } from '#lib/errors.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import { inProject } from '../access.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, instant } from '../fields.ts';

const limit = z.int().nullable().describe('Null: none.');

/** A project's usage of its plan (contract, section 4). */
export const usageEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/usage',
    area: 'projects',
    summary: 'What the project has used, and how much it may',
    access: inProject('viewer'),
    params: z.object({ project_id: id }),
    response: z.object({
      invocations: z.object({
        used: z.int(),
        limit,
        resets_at: instant.describe('The first instant of the next month, UTC.'),
      }),
      tables: z.object({ used: z.int(), limit }).describe('Of all schemas; partitions are part of their table.'),
      rows: z
        .object({ used: z.int().describe('Of the table that has most.'), limit })
        .describe('The limit is for each table.'),
      database_bytes: z.object({ used: z.int(), limit }),
      functions: z.object({ used: z.int(), limit }),
      storage_bytes: z.object({ used: z.int(), limit }).describe('All files together.'),
      stored_bytes: z
        .object({ used: z.int(), limit })
        .describe(
          'Payloads, results and logs of what ended, data of events, answers of webhooks’ receivers, and replaced versions of functions; the oldest are deleted first.',
        ),
      waiting_bytes: z.object({ used: z.int(), limit }).describe('Payloads of jobs that wait.'),
      flags: z.object({ used: z.int(), limit }).describe('Of all environments.'),
      flag_bytes: z.object({ used: z.int(), limit }).describe('Feature flags and segments.'),
    }),
    handle: async (_input, { db, deps, project }) => {
      if (project.status !== 'active') {
        throw new ServiceError(
          'project_not_ready',
          `The project has no database to look into: it is ${project.status}.`,
        );
      }
      const limits = planLimits[project.plan];
      const quotas = quotasFrom(deps.config)[project.plan];
      const [functions, stored, waiting, invocations, flags, database] = await Promise.all([
        countFunctions(db, project.id),
        storedBytesOf(db, project.id),
        waitingBytesOf(db, project.id),
        usageOf(db, project.id, functionInvoke.type),
        usedOf(db, project.id),
        readUsageInTurn(project.id, () => inDatabase(deps.servers, project, readUsage)),
      ]);
      return {
        invocations: { ...invocations, limit: monthlyCaps(deps.config)[project.plan] },
        tables: { used: database.tables, limit: limits.tables },
        rows: { used: database.rows, limit: limits.rows },
        database_bytes: { used: database.bytes, limit: limits.databaseBytes },
        storage_bytes: { used: database.fileBytes, limit: storageLimits(deps.config, project.plan).total },
        functions: { used: functions, limit: quotas.functions },
        stored_bytes: { used: stored, limit: quotas.storedBytes },
        waiting_bytes: { used: waiting, limit: quotas.waitingBytes },
        flags: { used: flags.flags, limit: quotas.flags },
        flag_bytes: { used: flags.bytes, limit: quotas.flagBytes },
      };
    },
  }),
];
