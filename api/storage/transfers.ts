import type { Context } from 'koa';
import type { BaseCall } from '#api/call.ts';
import { type ByteBudget, createByteBudget } from '#lib/byte-budget.ts';
import type { Config } from '#lib/config.ts';
import { ServiceError } from '#lib/errors.ts';

/** Files on their way in or out, counted by project: each holds a connection, buffers and a file or a socket. */
export type Transfers = Pick<ByteBudget, 'reserve'>;

export const createTransfers = (
  config: Pick<Config, 'PLINTH_TRANSFERS_PER_PROJECT' | 'PLINTH_TRANSFERS_PER_PROCESS'>,
): Transfers =>
  createByteBudget({ perOwner: config.PLINTH_TRANSFERS_PER_PROJECT, total: config.PLINTH_TRANSFERS_PER_PROCESS });

/**
 * Counts a transfer until its answer is sent, or its client is gone.
 * @throws {ServiceError} `overloaded`
 */
export const beginTransfer = (
  { res }: Pick<Context, 'res'>,
  { deps }: Pick<BaseCall, 'deps'>,
  { id, org_id: group }: { readonly id: string; readonly org_id: string },
): void => {
  const place = deps.transfers.reserve(id, group);
  if (!place.grow(1)) {
    place.release();
    throw new ServiceError('overloaded', 'Too many files of this project are on their way.', {
      hint: 'Wait until some have arrived. Operators set the limit with PLINTH_TRANSFERS_PER_PROJECT.',
      headers: { 'Retry-After': '2' },
    });
  }
  if (res.destroyed) place.release();
  else res.once('close', place.release);
};
