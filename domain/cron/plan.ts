import type { Plan } from '#domain/projects/store.ts';
import { ServiceError } from '#lib/errors.ts';
import { type CronExpression, leastIntervalSeconds } from './expression.ts';

const leastSeconds = { free: 60, pro: 10, enterprise: 10 } as const satisfies Record<Plan, number>;

const mostSchedules = 1000;

/** The shortest time between two fires that a plan has, in ms. */
export const spacingMsOf = (plan: Plan): number => leastSeconds[plan] * 1000;

/** @throws {ServiceError} `plan_limit_exceeded` */
export const requireInterval = (expression: CronExpression, plan: Plan): void => {
  const wanted = leastIntervalSeconds(expression);
  if (wanted >= leastSeconds[plan]) return;
  throw new ServiceError(
    'plan_limit_exceeded',
    `The least interval on the ${plan} plan is ${leastSeconds[plan]} seconds; this schedule fires ${wanted} seconds apart.`,
    { details: { limit: leastSeconds[plan], value: wanted } },
  );
};

/** @throws {ServiceError} `plan_limit_exceeded` */
export const requireRoomFor = (present: number): void => {
  if (present < mostSchedules) return;
  throw new ServiceError('plan_limit_exceeded', `A project has at most ${mostSchedules} schedules.`, {
    details: { limit: mostSchedules, value: present },
  });
};
