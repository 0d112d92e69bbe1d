import { type DueJob, takeDue } from '#domain/jobs/changes.ts';
import { admitKeyed } from '#domain/jobs/concurrency.ts';
import type { ShardContext } from './context.ts';

const maxDue = 500;
/** A project that has so many of what was taken at once, while more is due, is a flood. */
const floodSize = maxDue / 4;
const maxFloods = 50;

/** Admits jobs that are due. @returns whether functions hold some of them now */
export type AdmitDue = () => Promise<boolean>;

/** The concurrency keys of jobs that are due, by project. */
const keysOf = (due: readonly DueJob[]): { readonly projectId: string; readonly keys: readonly string[] }[] => {
  const keyed = Map.groupBy(due, ({ projectId }) => projectId);
  return [...keyed]
    .map(([projectId, own]) => ({ projectId, keys: own.flatMap(({ key }) => (key === null ? [] : [key])) }))
    .filter(({ keys }) => keys.length > 0);
};

/** The projects that fill what is taken at once; none when that was all. */
const floodsIn = (due: readonly DueJob[]): string[] =>
  due.length < maxDue
    ? []
    : [...Map.groupBy(due, ({ projectId }) => projectId)].flatMap(([id, own]) => (own.length < floodSize ? [] : [id]));

/**
 * Takes jobs that are due in the order of their times. While some projects have more due than is taken at once, all the
 * others go first every second time: 100,000 runs of one project that wake together are no reason for others to be late.
 */
const createTakeInTurns = ({ db, job, part }: ShardContext): (() => Promise<DueJob[]>) => {
  let floods: readonly string[] = [];
  let areOthersFirst = false;
  const take = (except: readonly string[], max: number): Promise<DueJob[]> =>
    takeDue(db, { type: job.type, part, max, except });
  return async () => {
    areOthersFirst = !areOthersFirst && floods.length > 0;
    const others = areOthersFirst ? await take(floods, maxDue) : [];
    const rest = others.length < maxDue ? await take([], maxDue - others.length) : [];
    const isOver = !areOthersFirst && rest.length < maxDue;
    floods = isOver ? [] : [...new Set([...floods, ...floodsIn(areOthersFirst ? others : rest)])].slice(-maxFloods);
    return [...others, ...rest];
  };
};

export const createAdmitDue = (shard: ShardContext): AdmitDue => {
  const { db, gate, job } = shard;
  const take = createTakeInTurns(shard);
  return async () => {
    const all = await take();
    const due = all.filter(({ held }) => !held);
    const free = due.filter(({ key }) => key === null);
    if (free.length > 0) await gate.readmit(free);
    for (const keys of keysOf(due)) {
      const admitted = await admitKeyed(db, { ...keys, type: job.type });
      if (admitted.length > 0) await gate.readmit(admitted);
    }
    return due.length < all.length;
  };
};
