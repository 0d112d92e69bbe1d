import { applySubscriptions } from '#domain/webhooks/subscriptions.ts';
import type { InProject } from '#api/access.ts';
import type { Call } from '#api/call.ts';

/**
 * Once the change of a webhook is committed, its project's database gets the list of writes that emit events. Where
 * that failed the answer says so, and the workers do it.
 */
export const subscribeAfter = ({ deps, project, afterCommit, setHeader }: Call<InProject>): void =>
  afterCommit(() =>
    applySubscriptions(deps, project.id).catch((error: unknown) => {
      setHeader('Subscription-Pending', 'true');
      throw error;
    }),
  );
