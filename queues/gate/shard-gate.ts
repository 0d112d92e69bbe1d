import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { z } from 'zod';
import { createBatcher, splitRefused } from '#lib/batch.ts';
import type { JobRef } from '#queues/define.ts';
import { admissions, admitted, beaten, ended, handedOver, placed } from './answers.ts';
import { type QueueShard, shardPrefix } from './queue-shards.ts';
import { type HandedOver, type Lease, bullIdOf } from './lease.ts';
import type { EndTexts } from '#queues/replies.ts';
import { type ScriptArgument, type ScriptName, type Scripts, type Taken, takenFrom } from './scripts.ts';
import type { Admission, Place, Share } from './types.ts';

export interface HeartbeatMessage {
  readonly workerId: string;
  /** Jobs that it can run at a time; null: it leaves. */
  readonly slots: number | null;
  /** JSON, for the operators. */
  readonly info: string;
}

export interface ShardSnapshot {
  /** False: the shard must be restored from Postgres first. */
  readonly open: boolean;
  readonly epoch: string;
  /** Redis' clock, in ms. */
  readonly now: number;
  /** Live workers and their last beat, by Redis' clock. */
  readonly alive: ReadonlyMap<string, string>;
  /** Projects whose limits the gate lacks. */
  readonly unknown: readonly string[];
  readonly slots: number;
}

export interface ShardGateOptions {
  readonly redis: Redis;
  readonly scripts: Scripts;
  readonly prefix: string;
  readonly shard: QueueShard;
  /** The limits of projects by their plan, or as operators set them. */
  readonly limitsOf: (projectIds: readonly string[]) => Promise<ReadonlyMap<string, Share>>;
}

/** The end of a run, as its script takes it. */
interface GateEnd {
  readonly lease: Lease;
  readonly texts: EndTexts;
  readonly finish: readonly ScriptArgument[];
}

/** One script holds up everybody else of the server: 50 ends take some 3 ms. */
const maxEnds = 50;
const maxEndsLength = 256 * 1024;

const lengthOf = ({ texts }: GateEnd): number => (texts.outcome?.length ?? 0) + (texts.reply?.length ?? 0);

const argumentsOf = ({ lease: { id, nonce }, texts, finish }: GateEnd): ScriptArgument[] => {
  const { outcome, replyTo, reply, statuses } = texts;
  const toStore = [texts.outcomeKey, outcome ?? '', texts.outcomeSeconds];
  const toReply = [replyTo ?? '', reply ?? '', texts.replyStreamLength, texts.replyStreamSeconds];
  const toPublish = [texts.channel, statuses.length, ...statuses];
  return [id, nonce, ...toStore, ...toReply, ...toPublish, finish.length, ...finish];
};

type Waiting = Pick<JobRef, 'id' | 'projectId' | 'priority' | 'awaited'>;

/** Above every priority. */
const awaitedRank = 10;

/** How the script that admits jobs reads what concerns one of them. */
const flagsOf = ({ job: { priority = 0, awaited = false }, capped }: Candidate): string => {
  const rank = awaited ? awaitedRank : priority;
  return `${capped ? '1' : ''}${rank > 0 ? `:${rank}` : ''}`;
};

/** The shards of a type have equal parts of what all of them may have together. */
const partOf = (limit: number, shardCount: number): number => Math.max(1, Math.floor(limit / shardCount));

/** How the scripts read what a project may have. */
const textOfShare = ({ running, waiting, kept = 0, weight = 1, organization }: Share, shardCount: number): string => {
  const most = organization && partOf(organization.running, shardCount);
  return [running, waiting, kept, weight, organization?.id ?? '', most ?? ''].join(':');
};

interface Candidate {
  readonly job: Waiting;
  readonly capped: boolean;
}

/** A worker counts no more after so many ms of silence. */
export const silentAfterMs = 10_000;

/** Limits that were read may be forgotten before they are used, when a project was idle until then. */
const maxReads = 3;

/** The number of waiting projects whose rules are read again at a time. */
const maxReread = 1000;

// The record in Postgres is what is kept; BullMQ's own copy goes when the job ends. Retries are rows, so one attempt.
const removeWhenDone = { attempts: 1, removeOnComplete: true, removeOnFail: true } as const;

/** The gate of one shard: its scripts, and the BullMQ queue behind it. */
export class ShardGate {
  readonly shard: QueueShard;
  readonly queue: Queue<HandedOver, void>;
  readonly #redis: Redis;
  readonly #key: string;
  #forgetFrom = '0';
  readonly #scripts: Scripts;
  readonly #limitsOf: ShardGateOptions['limitsOf'];
  readonly #admissions = createBatcher<Candidate, number>((items) => this.#admitAll(items));
  readonly #ends = createBatcher<Lease, void>((leases) => this.#finishAll(leases));
  readonly #runEnds = createBatcher<GateEnd, Taken | Error>(
    splitRefused<GateEnd, Taken | Error>(
      (ends) => this.#endAll(ends),
      async (_end, error) => (error instanceof Error ? error : new Error(String(error))),
    ),
    { max: maxEnds, maxSize: maxEndsLength, sizeOf: lengthOf, eager: true },
  );
  readonly #checks = createBatcher<Lease, boolean>((leases) => this.#areHeld(leases));

  constructor({ redis, scripts, prefix, shard, limitsOf }: ShardGateOptions) {
    this.shard = shard;
    this.#key = `${shardPrefix(prefix, shard.name)}:gate:`;
    this.#scripts = scripts;
    this.#redis = redis;
    this.#limitsOf = limitsOf;
    this.queue = new Queue(shard.name, {
      connection: redis,
      prefix: shardPrefix(prefix, shard.name),
      skipVersionCheck: true,
      defaultJobOptions: removeWhenDone,
    });
    // Failures reach the caller through `add`; the connection's own are logged where it is opened.
    this.queue.on('error', () => undefined);
  }

  /** @param capped whether it may be refused when too many of its project wait */
  async admit(job: Waiting, capped: boolean): Promise<Admission> {
    const answer = await this.#admissions.add({ job, capped });
    if (answer === admissions.full) return 'full';
    return answer === admissions.handedOver ? 'handed over' : 'waiting';
  }

  /** Admits jobs that were accepted before. Answers how many of them the gate did not know. */
  async readmit(jobs: readonly Waiting[]): Promise<number> {
    const found = await Promise.all(jobs.map((job) => this.#admissions.add({ job, capped: false })));
    return found.filter((answer) => answer !== admissions.known).length;
  }

  /** Whether the lease is the one that its job has now: an older one does not let it begin. */
  isHeld(lease: Lease): Promise<boolean> {
    return this.#checks.add(lease);
  }

  /** Hands over jobs again that keep their places; those that have none stay as they are. */
  async renew(jobs: readonly Pick<JobRef, 'id'>[]): Promise<void> {
    await this.#runAndHandOver(
      'renew',
      jobs.map(({ id }) => id),
    );
  }

  /** Frees the lease; nothing happens when it is not held any more. */
  finish(lease: Lease): Promise<void> {
    return this.#ends.add(lease);
  }

  /**
   * Publishes how a run ended, frees its lease, finishes its BullMQ job and takes the next one. Ends at the same moment
   * share a script.
   * @param finish the keys and arguments of BullMQ's script that finishes a job
   */
  async end(lease: Lease, texts: EndTexts, finish: readonly ScriptArgument[]): Promise<Taken> {
    const taken = await this.#runEnds.add({ lease, texts, finish });
    if (taken instanceof Error) throw taken;
    return taken;
  }

  async withdraw(jobs: readonly Pick<JobRef, 'id' | 'projectId'>[]): Promise<void> {
    await this.#runAndHandOver(
      'withdraw',
      jobs.flatMap((job) => [job.id, job.projectId]),
    );
  }

  /** Forgets all waiting jobs of a project. Answers how many there were. */
  async drop(projectId: string): Promise<number> {
    return z.number().parse(await this.#run('drop', [projectId]));
  }

  async setLimits(shares: ReadonlyMap<string, Share>): Promise<void> {
    const args = [...shares].flatMap(([project, share]) => [project, textOfShare(share, this.shard.shardCount)]);
    if (args.length > 0) await this.#runAndHandOver('limits', args);
  }

  /** @param paused projects; `*` for everybody */
  async setPauses(paused: readonly string[]): Promise<void> {
    await this.#runAndHandOver('pauses', paused);
  }

  /** @param limit of the job type on the whole installation, which the shards of its shards share; null: none */
  async setGlobalLimit(limit: number | null): Promise<void> {
    const part = limit === null ? '' : partOf(limit, this.shard.shardCount);
    await this.#runAndHandOver('global', [part]);
  }

  async beat({ workerId, slots, info }: HeartbeatMessage): Promise<ShardSnapshot> {
    const args = [workerId, slots ?? -1, info, silentAfterMs];
    const [epoch, now, handed, alive, unknown, total] = beaten.parse(await this.#run('beat', args));
    await this.#handOver(epoch, handed);
    const beats = new Map<string, string>();
    for (let i = 0; i < alive.length; i += 2) beats.set(alive[i] ?? '', alive[i + 1] ?? '');
    return { open: epoch !== '', epoch, now: Number(now), alive: beats, unknown, slots: total };
  }

  /** Forgets the limits of idle projects, a part at a time. */
  async forgetIdle(): Promise<void> {
    this.#forgetFrom = z.string().parse(await this.#run('forget', [this.#forgetFrom]));
  }

  /** @param running the jobs that run by their rows */
  async restore(epoch: number, running: readonly Pick<JobRef, 'id' | 'projectId'>[]): Promise<void> {
    await this.#run('restore', [epoch, ...running.flatMap((job) => [job.id, job.projectId])]);
  }

  /** Where each of these jobs stands, in their order. */
  async places(jobs: readonly Pick<JobRef, 'id' | 'projectId'>[]): Promise<Place[]> {
    const lookup = jobs.flatMap((job) => [job.id, job.projectId]);
    return placed.parse(await this.#run('place', lookup)).map(([state, rank, reason]) => ({
      state,
      position: rank < 0 ? null : rank + 1,
      reason: reason === '' ? null : reason,
    }));
  }

  /** Every lease; its nonce is the time it was given, in ms by Redis' clock. */
  async leases(): Promise<{ lease: Lease; projectId: string }[]> {
    const all = await this.#redis.hgetall(`${this.#key}lease`);
    return Object.entries(all).map(([id, held]) => {
      const [projectId = '', nonce = ''] = held.split(':');
      return { lease: { id, nonce }, projectId };
    });
  }

  /** Hands leased jobs over once more: those of which BullMQ does not know. */
  async handOverOnceMore(epoch: string, jobs: readonly { lease: Lease; projectId: string }[]): Promise<void> {
    await this.queue.addBulk(
      jobs.map(({ lease, projectId }) => ({
        name: this.shard.type,
        data: { projectId, epoch },
        opts: { jobId: bullIdOf(lease) },
      })),
    );
  }

  /** Which of these jobs hold a lease. */
  async holders(jobIds: readonly string[]): Promise<boolean[]> {
    if (jobIds.length === 0) return [];
    return (await this.#redis.hmget(`${this.#key}lease`, ...jobIds)).map((held) => held !== null);
  }

  /** Which leased jobs BullMQ knows. */
  async inBullmq(leases: readonly Lease[]): Promise<boolean[]> {
    const lookup = this.#redis.pipeline();
    for (const lease of leases) lookup.exists(this.queue.toKey(bullIdOf(lease)));
    return ((await lookup.exec()) ?? []).map(([error, found]) => {
      if (error) throw error;
      return found === 1;
    });
  }

  /** Projects with jobs running or waiting; of those that wait, the most burdened ones. */
  async busyProjects(): Promise<string[]> {
    const [running, waiting] = await Promise.all([
      this.#redis.hkeys(`${this.#key}run`),
      this.#redis.zrevrange(`${this.#key}backlog`, 0, maxReread - 1),
    ]);
    return [...new Set([...running, ...waiting])];
  }

  /** The gate's own numbers, for the operators. */
  readonly inspect = {
    conf: () => this.#redis.hmget(`${this.#key}conf`, 'epoch', 'server', 'window', 'waiting'),
    leased: () => this.#redis.hlen(`${this.#key}lease`),
    workers: () => this.#redis.hgetall(`${this.#key}workers`),
    isPaused: async () => (await this.#redis.sismember(`${this.#key}paused`, '*')) === 1,
    running: () => this.#redis.hgetall(`${this.#key}run`),
    limits: (projects: readonly string[]) => this.#redis.hmget(`${this.#key}shares`, ...projects),
    knownProjects: () => this.#redis.hlen(`${this.#key}shares`),
    backlog: (max: number) => this.#redis.zrevrange(`${this.#key}backlog`, 0, max - 1, 'WITHSCORES'),
  };

  serverId(): Promise<string> {
    return this.#scripts.serverId();
  }

  close(): Promise<void> {
    return this.queue.close();
  }

  #run(name: ScriptName, args: readonly ScriptArgument[]): Promise<unknown> {
    return this.#scripts.run(name, { gate: this.#key, bull: this.queue.toKey('') }, args);
  }

  async #runAndHandOver(name: ScriptName, args: readonly (string | number)[]): Promise<void> {
    const [epoch, , handed] = handedOver.parse(await this.#run(name, args));
    await this.#handOver(epoch, handed);
  }

  /** A job that gets lost here keeps its lease: the reconciler hands it over again. */
  async #handOver(epoch: string, handed: readonly string[]): Promise<void> {
    if (handed.length === 0) return;
    const jobs = [];
    for (let i = 0; i < handed.length; i += 3) {
      const [id = '', projectId = '', nonce = ''] = handed.slice(i, i + 3);
      jobs.push({ lease: { id, nonce }, projectId });
    }
    await this.handOverOnceMore(epoch, jobs);
  }

  async #admitOnce(items: readonly Candidate[]): Promise<number[]> {
    const args = items.flatMap((item) => [item.job.id, item.job.projectId, flagsOf(item)]);
    const [epoch, , handed, found] = admitted.parse(await this.#run('admit', args));
    await this.#handOver(epoch, handed);
    return found;
  }

  async #admitAll(items: readonly Candidate[]): Promise<number[]> {
    let found = await this.#admitOnce(items);
    for (let tries = 0; tries < maxReads; tries += 1) {
      const missing = items.filter((_, i) => found[i] === admissions.limitsMissing);
      if (missing.length === 0) return found;
      await this.setLimits(await this.#limitsOf([...new Set(missing.map(({ job }) => job.projectId))]));
      const then = await this.#admitOnce(missing);
      found = found.map((answer) => (answer === admissions.limitsMissing ? (then.shift() ?? answer) : answer));
    }
    return found;
  }

  async #areHeld(leases: readonly Lease[]): Promise<boolean[]> {
    const held = await this.#redis.hmget(`${this.#key}lease`, ...leases.map(({ id }) => id));
    return leases.map(({ nonce }, i) => held[i]?.endsWith(`:${nonce}`) ?? false);
  }

  async #endAll(ends: readonly GateEnd[]): Promise<Taken[]> {
    const answer = await this.#run('end', [ends.length, ...ends.flatMap(argumentsOf)]);
    const [epoch, , handed, taken] = ended.parse(answer);
    await this.#handOver(epoch, handed);
    return taken.map(takenFrom);
  }

  async #finishAll(leases: readonly Lease[]): Promise<void[]> {
    await this.#runAndHandOver(
      'finish',
      leases.flatMap(({ id, nonce }) => [id, nonce]),
    );
    return leases.map(() => undefined);
  }
}
