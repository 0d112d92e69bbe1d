import type { Plan, WorkerPlan } from './plan.ts';
import { engineProducer, engineWorker } from './ways/engine.ts';
import { gateProducer, gateWorker } from './ways/gate.ts';
import { plainProducer, plainWorker } from './ways/plain.ts';
import type { Close, Producer, Subscribers } from './ways/side.ts';

const producers = { plain: plainProducer, gate: gateProducer, engine: engineProducer } as const;
const workers = { plain: plainWorker, gate: gateWorker, engine: engineWorker } as const;

export const openProducer = (plan: Plan): Promise<Producer> => producers[plan.way](plan);
export const openWorker = (plan: WorkerPlan, subscribers: Subscribers): Promise<Close> =>
  workers[plan.way](plan, subscribers);
