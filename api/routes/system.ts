import { z } from 'zod';
import { metricsType } from '#lib/metrics.ts';
import { everyone } from '../access.ts';
import { type Endpoint, RawReply, endpoint } from '../endpoint.ts';
import { scrape } from '../metrics.ts';
import { jsonType } from '../reply.ts';
import { isOpsToken } from '../auth/operator.ts';
import { unauthenticated } from '../auth/credentials.ts';

const readiness = z.object({
  ready: z.boolean(),
  dependencies: z.record(z.string(), z.boolean()).describe('Each service that a request needs: whether it answers.'),
});

/** What load balancers and monitoring ask. */
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
      const dependencies = await deps.health.check();
      const ready = deps.health.accepting() && Object.values(dependencies).every(Boolean);
      return new RawReply(JSON.stringify({ ready, dependencies }), jsonType, ready ? 200 : 503);
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
