import type { ReservedBytes } from '#lib/byte-budget.ts';
import { ProviderFault } from './dialect.ts';

/**
 * Counts bytes of an answer that are kept in memory.
 * @throws {ProviderFault} `overloaded` when there is no room for them
 */
export const reserve = (reserved: Pick<ReservedBytes, 'grow'> | undefined, bytes: number): void => {
  if (reserved === undefined || reserved.grow(bytes)) return;
  throw new ProviderFault('overloaded', 'Too many bytes of answers are in flight.');
};
