import { z } from 'zod';
import { sandboxFacts } from '#domain/functions/functions.ts';
import { cachedFor } from '#lib/cached-for.ts';
import { metricsType } from '#lib/metrics.ts';
import type { SandboxFacts } from '#queues/function-invoke.ts';
import type { Gate } from '#queues/gate/types.ts';
import { everyone } from '../access.ts';
import { type Endpoint, RawReply, endpoint } from '../endpoint.ts';
import { scrape } from '../metrics.ts';
import { sandboxFacts as sandboxFactsShape } from '#api/ops/shapes.ts';
import { jsonType } from '#api/http/reply.ts';
import { isOpsToken } from '../auth/operator.ts';
import { unauthenticated } from '../auth/credentials.ts';

const readiness = z.object({
  ready: z.boolean(),
  dependencies: z.record(z.string(), z.boolean()).describe('Each service that requests need: whether it answers.'),
  degraded: z
    .array(z.string())
    .describe('Services that do not answer and that some requests need, as files do `storage`: the others are served.'),
  sandbox: sandboxFactsShape
    .nullable()
    .describe('The languages of functions, and how well live workers fence them in; null while that is not known.'),
});

const cachedByGate = new WeakMap<Gate, () => Promise<SandboxFacts | null>>();

/** Anyone may ask, as often as they like: the workers are queried once a second. It says nothing about readiness. */
const sandboxOf = (gate: Gate): Promise<SandboxFacts | null> => {
  const readSandbox = cachedByGate.get(gate) ?? cachedFor(1000, () => sandboxFacts(gate).catch(() => null));
  cachedByGate.set(gate, readSandbox);
  return readSandbox();
};

/** The endpoints of load balancers and monitoring. */
export const systemEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/healthz',
    area: 'system',
    summary: 'Whether the process is alive',
    access: everyone,
    response: z.object({ status: z.literal('ok') }),
    handle: () => Promise.resolve({ status: 'ok' as const }),
  }),
  endpoint({
    method: 'get',
    path: '/readyz',
    area: 'system',
    summary: 'Whether the process can serve; names each dependency. 503 while it cannot.',
    access: everyone,
    response: readiness,
    handle: async (_input, { deps }) => {
      const [{ needed, others }, sandbox] = await Promise.all([deps.health.check(), sandboxOf(deps.gate)]);
      const ready = deps.health.accepting() && Object.values(needed).every(Boolean);
      const degraded = Object.keys(others).filter((name) => others[name] === false);
      const state = { ready, dependencies: { ...needed, ...others }, degraded, sandbox };
      return new RawReply(JSON.stringify(state), jsonType, ready ? 200 : 503);
    },
  }),
  endpoint({
    method: 'get',
    path: '/metrics',
    area: 'system',
    summary: 'Prometheus metrics; from elsewhere than loopback with the ops token',
    access: everyone,
    response: z.string(),
    handle: async (_input, { deps, isLocal, bearer }) => {
      const allowed = isLocal || isOpsToken(bearer, deps.config.PLINTH_OPS_TOKEN);
      if (!allowed)
        throw unauthenticated('Metrics need the operators’ token (Authorization: Bearer).', bearer !== undefined);
      return new RawReply(await scrape(deps), metricsType);
    },
  }),
];
