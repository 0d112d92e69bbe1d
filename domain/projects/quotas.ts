import type { Config } from '#lib/config.ts';
import type { Plan } from './store.ts';

/** The quotas of a plan in the control database (contract, section 8); null: no limit. */
export interface Quotas {
  readonly functions: number | null;
  readonly storedBytes: number;
  readonly waitingBytes: number;
}

type QuotaConfig = Pick<
  Config,
  | `PLINTH_FUNCTIONS_${'FREE' | 'PRO'}`
  | `PLINTH_STORED_BYTES_${'FREE' | 'PRO' | 'ENTERPRISE'}`
  | `PLINTH_WAITING_BYTES_${'FREE' | 'PRO' | 'ENTERPRISE'}`
>;

export const quotasFrom = (config: QuotaConfig): Readonly<Record<Plan, Quotas>> => ({
  free: {
    functions: config.PLINTH_FUNCTIONS_FREE,
    storedBytes: config.PLINTH_STORED_BYTES_FREE,
    waitingBytes: config.PLINTH_WAITING_BYTES_FREE,
  },
  pro: {
    functions: config.PLINTH_FUNCTIONS_PRO,
    storedBytes: config.PLINTH_STORED_BYTES_PRO,
    waitingBytes: config.PLINTH_WAITING_BYTES_PRO,
  },
  enterprise: {
    functions: null,
    storedBytes: config.PLINTH_STORED_BYTES_ENTERPRISE,
    waitingBytes: config.PLINTH_WAITING_BYTES_ENTERPRISE,
  },
});
