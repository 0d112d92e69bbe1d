import type { Plan } from '#domain/projects/store.ts';
import { ServiceError } from '#lib/errors.ts';
import { type CronExpression, minIntervalSeconds } from './expression.ts';

const minSeconds = { free: 60, pro: 10, enterprise: 10 } as const satisfies Record<Plan, number>;

const maxSchedules = 1000;

/** The shortest time between two fires that a plan has, in ms. */
export const spacingMsOf = (plan: Plan): number => minSeconds[plan] * 1000;

/** @throws {ServiceError} `plan_limit_exceeded` */
export const requireInterval = (expression: CronExpression, plan: Plan): void => {
  const wanted = minIntervalSeconds(expression);
  if (wanted >= minSeconds[plan]) return;
  throw new ServiceError(
    'plan_limit_exceeded',
    `The least interval on the ${plan} plan is ${minSeconds[plan]} seconds; this schedule fires ${wanted} seconds apart.`,
    { details: { limit: minSeconds[plan], value: wanted } },
  );
};

/** @throws {ServiceError} `plan_limit_exceeded` */
export const requireRoomFor = (present: number): void => {
  if (present < maxSchedules) return;
  throw new ServiceError('plan_limit_exceeded', `A project has at most ${maxSchedules} schedules.`, {
    details: { limit: maxSchedules, value: present },
  });
};
