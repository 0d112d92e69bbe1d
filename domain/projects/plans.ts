import { ServiceError } from '#lib/errors.ts';

/** @throws {ServiceError} `forbidden` where only operators choose plans */
export const requirePlanChange = (who: 'anyone' | 'operator'): void => {
  if (who === 'operator') {
    throw new ServiceError('forbidden', 'On this installation only its operators choose plans other than free.');
  }
};
