import type { MonthlyCaps } from '#domain/jobs/usage.ts';
import type { Config } from '#lib/config.ts';

/** How many runs of functions a project may have in a calendar month (contract, section 4). */
export const monthlyCaps = (
  config: Pick<Config, 'PLINTH_MONTHLY_CAP_FREE' | 'PLINTH_MONTHLY_CAP_PRO'>,
): MonthlyCaps => ({
  free: config.PLINTH_MONTHLY_CAP_FREE,
  pro: config.PLINTH_MONTHLY_CAP_PRO,
  enterprise: null,
});
