import { answerParent } from '../jobs/child.ts';
import { type AbuseName, abuses } from './abuses/all.ts';
import { call } from './account.ts';
import { type Attack, type Ground, openGround } from './ground.ts';
import type { Effect } from './shapes.ts';

/** The abuser's client, its receivers and its model server: one process. */
export interface AbusePlan {
  readonly abuse: AbuseName;
  readonly url: string;
}

const ending = new AbortController();
let ground: Ground | undefined;
let attack: Attack | undefined;

const prepared = (): Attack => {
  if (attack === undefined) throw new Error('the abuse is not prepared');
  return attack;
};

answerParent({
  prepare: async ({ abuse, url }: AbusePlan): Promise<void> => {
    ground = await openGround(url, ending.signal);
    attack = await abuses[abuse](ground);
  },
  begin: () => prepared().begin(),
  effect: (): Promise<Effect> => prepared().effect(),
  /** The abuser leaves, and deletes the project. */
  end: async (): Promise<void> => {
    ending.abort();
    if (ground === undefined) return;
    const { url, headers, projectId } = ground.account;
    const patience = AbortSignal.timeout(5000);
    // That it takes long is no failure: what is left behind is waited for elsewhere.
    await call(url, { method: 'DELETE', path: `/projects/${projectId}`, headers, signal: patience }).catch(
      () => undefined,
    );
  },
});
