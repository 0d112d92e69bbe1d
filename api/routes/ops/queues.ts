import { z } from 'zod';
import { cachedFor } from '#lib/cached-for.ts';
import { pause, resume } from '#domain/ops/projects.ts';
import { type Trouble, troubles } from '#domain/ops/trouble.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { globalLimitOf, setGlobalLimit } from '#domain/jobs/limits.ts';
import { ServiceError } from '#lib/errors.ts';
import { operator } from '../../access.ts';
import type { BaseCall } from '../../call.ts';
import type { Deps } from '../../deps.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { instant } from '../../fields.ts';
import { jobType, overviewOf, queue, worker } from '#api/ops/shapes.ts';

const area = 'operators';
const params = z.object({ type: jobType });
const paused = z.object({ type: z.string(), paused: z.boolean() });

const changed = ({ deps, afterCommit }: BaseCall, type: string): void =>
  afterCommit(() => deps.gate.rulesChanged({ type }));

const perMinute = z.array(z.int());

const trouble = z.object({
  severity: z.enum(['bad', 'warn']),
  title: z.string(),
  detail: z.string(),
  view: z.string().describe('Where the page shows more: its address below `/ops/`.'),
});

type Troubles = () => Promise<readonly Trouble[]>;
const troublesByDb = new WeakMap<ControlDb, Troubles>();

/** Shared by all operators: ten open pages cost as much as one. */
const troublesOf = (deps: Pick<Deps, 'db' | 'gate'>): Troubles => {
  const known =
    troublesByDb.get(deps.db) ?? cachedFor(4000, async () => troubles(deps.db, await overviewOf(deps).snapshot()));
  troublesByDb.set(deps.db, known);
  return known;
};

/** The queues at a glance. */
export const opsQueueEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/ops/api/queues',
    area,
    summary: 'Every job type: depth, running, oldest wait, rates, failures, dead letters',
    access: operator,
    response: z.object({ at: instant, redis: z.boolean(), queues: z.array(queue).readonly() }),
    handle: (_input, { deps }) => overviewOf(deps).snapshot(),
  }),
  endpoint({
    method: 'get',
    path: '/ops/api/trouble',
    area,
    summary: 'What is wrong now, the cause before what follows from it',
    access: operator,
    response: z.object({ troubles: z.array(trouble).readonly() }),
    handle: async (_input, { deps }) => ({ troubles: await troublesOf(deps)() }),
  }),
  endpoint({
    method: 'post',
    path: '/ops/api/queues/{type}/pause',
    area,
    summary: 'Hands no jobs of this type to workers; what runs goes on, what comes waits',
    access: operator,
    params,
    response: paused,
    handle: async ({ params: { type } }, call) => {
      await pause(call.db, { projectId: null, type });
      changed(call, type);
      return { type, paused: true };
    },
  }),
  endpoint({
    method: 'post',
    path: '/ops/api/queues/{type}/resume',
    area,
    summary: 'Hands jobs of this type to workers again',
    access: operator,
    params,
    response: paused,
    handle: async ({ params: { type } }, call) => {
      await resume(call.db, { projectId: null, type });
      changed(call, type);
      return { type, paused: false };
    },
  }),
  endpoint({
    method: 'put',
    path: '/ops/api/queues/{type}/limit',
    area,
    summary: 'Sets how many jobs of this type run at a time on the whole installation; null gives the setting back',
    access: operator,
    params,
    body: z.strictObject({ limit: z.int().min(1).max(1_000_000).nullable() }),
    response: z.object({
      type: z.string(),
      limit: z.int().nullable().describe('What is in force; null: as many as there are slots.'),
      own_limit: z.int().nullable(),
    }),
    handle: async ({ params: { type }, body: { limit } }, call) => {
      const shards = call.deps.config.PLINTH_QUEUE_SHARDS;
      if (limit !== null && limit < shards) {
        throw new ServiceError('validation_failed', `The limit must be at least ${shards}, the number of shards.`, {
          details: [{ path: 'limit', message: `must be at least ${shards}` }],
        });
      }
      await setGlobalLimit(call.db, type, limit);
      changed(call, type);
      return globalLimitOf(call.db, type);
    },
  }),
  endpoint({
    method: 'get',
    path: '/ops/api/workers',
    area,
    summary: 'The workers that are alive, and what they run',
    access: operator,
    response: z.object({ at: instant, redis: z.boolean(), workers: z.array(worker).readonly() }),
    handle: (_input, { deps }) => overviewOf(deps).snapshot(),
  }),
  endpoint({
    method: 'get',
    path: '/ops/api/charts',
    area,
    summary: 'The last hour by minutes and job type',
    access: operator,
    response: z.object({
      minutes: z.array(instant).describe('When each minute begins, oldest first.'),
      types: z.array(
        z.object({
          type: z.string(),
          accepted: perMinute,
          succeeded: perMinute,
          failed: perMinute,
          p95_wait_ms: z.array(z.number().nullable()),
        }),
      ),
    }),
    handle: async (_input, { deps }) => {
      const minutes = await overviewOf(deps).history.minutes();
      return {
        minutes: minutes.map(({ at }) => new Date(at)),
        types: jobType.options.map((type) => ({
          type,
          accepted: minutes.map(({ types }) => types.get(type)?.accepted ?? 0),
          succeeded: minutes.map(({ types }) => types.get(type)?.succeeded ?? 0),
          failed: minutes.map(({ types }) => types.get(type)?.failed ?? 0),
          p95_wait_ms: minutes.map(({ types }) => types.get(type)?.p95WaitMs ?? null),
        })),
      };
    },
  }),
];
