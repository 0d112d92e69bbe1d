import { setTimeout as delay } from 'node:timers/promises';
import { answerParent, sharedNow } from './child.ts';
import type { AskPlan, FloodPlan, Moment, Plan, Span, TricklePlan } from './plan.ts';
import { openProducer } from './ways.ts';
import type { Producer } from './ways/side.ts';

/** The producer's process: what an API process does with the queue. */
let producer: Producer | null = null;

const opened = (): Producer => {
  if (producer === null) throw new Error('open it first');
  return producer;
};

/** Turns over the projects, `callers` at a time, `count` in all. */
const each = async (
  { projects, count, callers }: FloodPlan,
  work: (projectId: string) => Promise<unknown>,
): Promise<void> => {
  let taken = 0;
  const call = async (): Promise<void> => {
    while (taken < count) {
      const projectId = projects[taken % projects.length] ?? '';
      taken += 1;
      await work(projectId);
    }
  };
  await Promise.all(Array.from({ length: callers }, call));
};

answerParent({
  open: async (plan: Plan): Promise<string | null> => {
    producer = await openProducer(plan);
    return producer.replyTo;
  },
  flood: async (plan: FloodPlan): Promise<Span> => {
    const { add } = opened();
    const began = sharedNow();
    await each(plan, add);
    return { began, ended: sharedNow() };
  },
  /** One job for each project, at steady intervals; answers when each was asked for. */
  trickle: async ({ projects, everyMs }: TricklePlan): Promise<Moment[]> => {
    const { add } = opened();
    const moments: Promise<Moment>[] = [];
    for (const projectId of projects) {
      const at = sharedNow();
      moments.push(add(projectId).then((id) => [id, at]));
      await delay(everyMs);
    }
    return Promise.all(moments);
  },
  /** So many round trips; answers how long each took, in ms. */
  ask: async ({ projects, callers, warmUp, count }: AskPlan): Promise<number[]> => {
    const { ask } = opened();
    const took: number[] = [];
    await each({ projects, callers, count: warmUp }, ask);
    await each({ projects, callers, count }, async (projectId) => {
      const began = sharedNow();
      await ask(projectId);
      took.push(sharedNow() - began);
    });
    return took;
  },
  close: async (): Promise<void> => producer?.close(),
});
