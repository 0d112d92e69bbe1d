import type { Config } from '#lib/config.ts';
import { type Plan, countFreeProjects } from './store.ts';
import { lockMembers } from '#domain/teams/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';

/** The quotas of a plan in the control database (contract, section 8); null: no limit. */
interface Quotas {
  readonly functions: number | null;
  readonly storedBytes: number;
  readonly waitingBytes: number;
  readonly flags: number | null;
  readonly flagBytes: number;
}

type QuotaConfig = Pick<
  Config,
  | `PLINTH_FUNCTIONS_${'FREE' | 'PRO'}`
  | `PLINTH_STORED_BYTES_${'FREE' | 'PRO' | 'ENTERPRISE'}`
  | `PLINTH_WAITING_BYTES_${'FREE' | 'PRO' | 'ENTERPRISE'}`
  | `PLINTH_FLAGS_${'FREE' | 'PRO'}`
  | `PLINTH_FLAG_BYTES_${'FREE' | 'PRO' | 'ENTERPRISE'}`
>;

export const quotasFrom = (config: QuotaConfig): Readonly<Record<Plan, Quotas>> => ({
  free: {
    functions: config.PLINTH_FUNCTIONS_FREE,
    storedBytes: config.PLINTH_STORED_BYTES_FREE,
    waitingBytes: config.PLINTH_WAITING_BYTES_FREE,
    flags: config.PLINTH_FLAGS_FREE,
    flagBytes: config.PLINTH_FLAG_BYTES_FREE,
  },
  pro: {
    functions: config.PLINTH_FUNCTIONS_PRO,
    storedBytes: config.PLINTH_STORED_BYTES_PRO,
    waitingBytes: config.PLINTH_WAITING_BYTES_PRO,
    flags: config.PLINTH_FLAGS_PRO,
    flagBytes: config.PLINTH_FLAG_BYTES_PRO,
  },
  enterprise: {
    functions: null,
    storedBytes: config.PLINTH_STORED_BYTES_ENTERPRISE,
    waitingBytes: config.PLINTH_WAITING_BYTES_ENTERPRISE,
    flags: null,
    flagBytes: config.PLINTH_FLAG_BYTES_ENTERPRISE,
  },
});

/** How many branches a project may have at a time. */
export const maxBranches = { free: 2, pro: 10, enterprise: 50 } as const satisfies Readonly<Record<Plan, number>>;

/** How many bytes the payloads of a project's waiting jobs may have, by plan. */
export const waitingBytesFrom = (config: QuotaConfig): Readonly<Record<Plan, number>> => {
  const { free, pro, enterprise } = quotasFrom(config);
  return { free: free.waitingBytes, pro: pro.waitingBytes, enterprise: enterprise.waitingBytes };
};

/**
 * Free may be chosen by anyone.
 * @throws {ServiceError} `forbidden` where only operators choose plans
 */
export const requirePlanChange = (who: 'anyone' | 'operator', plan: Plan): void => {
  if (who === 'operator' && plan !== 'free') {
    throw new ServiceError('forbidden', 'On this installation only its operators choose plans other than free.');
  }
};

/** A deleted project keeps its database for days, so creating and deleting in a loop must end somewhere, too. */
const keptPerPresent = 5;

/**
 * Before an organization gets one more project of a plan. Requests at the same moment wait for each other until the
 * caller's transaction ends, so that the limit is exact.
 * @param of.most `PLINTH_FREE_PROJECTS_PER_ORG`
 * @throws {ServiceError} `plan_limit_exceeded`; `not_found` when the user is no member any more
 */
export const requireRoomForProject = async (
  db: Queryable,
  of: { readonly orgId: string; readonly userId: string; readonly plan: Plan; readonly max: number },
): Promise<void> => {
  // Whatever the plan: the organization may be deleted at this moment.
  if ((await lockMembers(db, of.orgId, of.userId)) === undefined) throw notFound('organization');
  if (of.plan !== 'free') return;
  const { present, kept } = await countFreeProjects(db, of.orgId, of.userId);
  if (present >= of.max) {
    throw new ServiceError(
      'plan_limit_exceeded',
      `The organization has ${present} projects of the Free plan, and ${of.max} is the limit.`,
      { hint: 'Delete one, or choose a larger plan for one.' },
    );
  }
  if (kept >= of.max * keptPerPresent) {
    throw new ServiceError(
      'plan_limit_exceeded',
      `You have deleted ${kept} projects whose databases are still kept, and ${of.max * keptPerPresent} is the limit.`,
      { hint: 'Wait until the first of them are gone, or choose a larger plan.' },
    );
  }
};
