import { ServiceError } from '#lib/errors.ts';
import type { Plan } from './store.ts';

/**
 * Free may be chosen by anyone.
 * @throws {ServiceError} `forbidden` where only operators choose plans
 */
export const requirePlanChange = (who: 'anyone' | 'operator', plan: Plan): void => {
  if (who === 'operator' && plan !== 'free') {
    throw new ServiceError('forbidden', 'On this installation only its operators choose plans other than free.');
  }
};
