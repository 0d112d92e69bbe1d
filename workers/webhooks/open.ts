import { createPlatformMail, noticeToAdmins } from '#domain/mail/mail.ts';
import type { Platform } from '#domain/platform.ts';
import { noHeaders, nothingSent, startedJobs, stuckTries } from '#domain/webhooks/attempts.ts';
import { notAnswered } from '#domain/webhooks/message.ts';
import type { Config } from '#lib/config.ts';
import type { ControlDb, Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { ownAddress } from '#lib/own-address.ts';
import { startPoller } from '#lib/poller.ts';
import { openWorkerRedis } from '#lib/redis.ts';
import type { Gate } from '#queues/gate/types.ts';
import { type TryRecorder, createTryRecorder } from '../processors/webhook-deliver.ts';
import { startFanOut } from './fan-out.ts';
import { createPumper, startThrottleWaker } from './scheduler.ts';

export interface DeliveriesOptions {
  readonly platform: Pick<Platform, 'db' | 'sealer'>;
  /** For large backlogs of events. */
  readonly backlogDb: ControlDb;
  readonly config: Config;
  readonly log: Log;
}

/** The part of a worker that delivers events to webhooks. */
export interface Deliveries {
  /** Records attempts; a recorded one makes room for the next. */
  readonly recorder: TryRecorder;
  /** From now on events are fanned out, and due deliveries are queued. */
  readonly start: (gate: Gate) => void;
  /** The running attempts have ended before. */
  readonly stop: () => Promise<void>;
}

const stuckPollIntervalMs = 60_000;
const maxStuck = 1000;
/** A person cancelled its job, or it waited too long: the receiver is not to blame. */
const cutOff = { ...notAnswered('The try was cut off.'), version: null };

const freeStuck = async (db: Queryable, recorder: TryRecorder): Promise<void> => {
  const stuck = await stuckTries(db, maxStuck);
  const jobIds = stuck.map(({ jobId }) => jobId);
  const started = await startedJobs(db, jobIds);
  await Promise.all(
    stuck.map((tried) =>
      recorder.record({ ...tried, ...cutOff, requestHeaders: started.has(tried.jobId) ? noHeaders : nothingSent }),
    ),
  );
};

/** @returns what delivers events to webhooks; nothing happens before it is started */
export const openDeliveries = (options: DeliveriesOptions): Deliveries => {
  const { platform, backlogDb, config, log } = options;
  const { db, sealer } = platform;
  const mail = createPlatformMail(sealer, ownAddress(config));
  const opened = Promise.withResolvers<Gate>();
  // The gate is opened with the engine, which wants the processor first.
  const gate: Pick<Gate, 'admit'> = { admit: async (job, capped) => (await opened.promise).admit(job, capped) };
  // The worst that may happen is that all of them are of one shard and come to one worker.
  const slowAtOnce = Math.max(1, Math.floor(config.PLINTH_WEBHOOK_SLOTS / config.PLINTH_QUEUE_SHARDS / 2));
  const pumper = createPumper({ db, gate, log, slowAtOnce });
  const recorder = createTryRecorder({
    db,
    log,
    notify: (tx, notice) => noticeToAdmins(mail, tx, notice),
    onRoom: pumper.addRoom,
  });

  const stops: (() => Promise<void>)[] = [];
  return {
    recorder,
    start: (own) => {
      opened.resolve(own);
      pumper.start();
      const throttleWaker = startThrottleWaker({ db, log, onWoken: pumper.add });
      const fanOut = startFanOut({
        db,
        backlogDb,
        log,
        redis: openWorkerRedis(config.REDIS_URL, log),
        prefix: config.PLINTH_REDIS_PREFIX,
        onDeliveries: pumper.add,
        onLockedElsewhere: throttleWaker.add,
      });
      const stuckPoller = startPoller(() => freeStuck(db, recorder), {
        everyMs: stuckPollIntervalMs,
        firstInMs: stuckPollIntervalMs,
        onFailure: (error) =>
          log.warn({ err: error }, 'deliveries whose job is gone could not be freed; trying again in a minute'),
      });
      stops.push(async () => {
        await stuckPoller.stop();
        await fanOut.stop();
        await throttleWaker.stop();
        await pumper.stop();
      });
    },
    stop: async () => {
      await Promise.all(stops.map((stop) => stop()));
    },
  };
};
