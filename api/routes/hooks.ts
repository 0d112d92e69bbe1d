import { z } from 'zod';
import { monthlyCaps } from '#domain/functions/functions.ts';
import { receive } from '#domain/integrations/inbound.ts';
import { notFound } from '#lib/errors.ts';
import { everyone } from '../access.ts';
import { networkOf } from '../address.ts';
import { type Endpoint, RawReply } from '../endpoint.ts';
import { id } from '../fields.ts';
import { rawEndpoint } from '../raw-endpoint.ts';

const received = JSON.stringify({ received: true });

const projectId = (text: string | undefined): string => {
  const parsed = id.safeParse(text);
  if (parsed.success) return parsed.data;
  throw notFound('hook');
};

/** Calls of payment providers (contract, section 6): they sign what they send, over the body's own bytes. */
export const hookEndpoints: readonly Endpoint[] = [
  rawEndpoint({
    method: 'post',
    path: '/hooks/{project_id}/{provider}',
    area: 'integrations',
    summary: 'Where a payment provider reports to: stripe, paypal, razorpay; verified by its signature',
    access: everyone,
    rate: 'hooks',
    query: z.object({}),
    handle: async ({ params, header, body }, { deps, requestId, ip }) => {
      const call = {
        projectId: projectId(params['project_id']),
        provider: params['provider'] ?? '',
        header,
        body,
        requestId,
        network: networkOf(ip),
      };
      await receive({ ...deps, caps: monthlyCaps(deps.config) }, call);
      return new RawReply(received);
    },
  }),
];
