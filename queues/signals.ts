import type { Redis } from 'ioredis';
import { z } from 'zod';
import { createBatcher } from '#lib/batch.ts';

/** What is told about a job while it lives. It is for those who listen just now: the job's row keeps what counts. */
const eventSchema = z.discriminatedUnion('event', [
  z.object({ event: z.literal('status'), status: z.string(), attempt: z.number() }),
  z.object({ event: z.literal('progress'), progress: z.number() }),
  z.object({
    event: z.literal('log'),
    ts: z.string(),
    level: z.string(),
    message: z.string(),
    /** Its place among the lines of its run, from 1 on. */
    line: z.number().optional(),
  }),
]);
export type JobEvent = z.output<typeof eventSchema>;

const jobChannel = (prefix: string, jobId: string): string => `${prefix}:job:${jobId}`;
const cancelChannel = (prefix: string): string => `${prefix}:cancel`;
const noticeChannel = (prefix: string): string => `${prefix}:notices`;

/** What processes tell each other, so that none uses what is out of date: of a project, its keys or its tables. */
export interface Notice {
  readonly about: 'project' | 'schema';
  readonly projectId: string;
}

const noticeSchema = z.object({ about: z.enum(['project', 'schema']), projectId: z.string() });

export interface Signals {
  /** Told to whoever listens; lost when Redis is away. */
  readonly announce: (jobId: string, event: JobEvent) => void;
  /** Asks the worker that runs the job to stop it. The wish stands in the job's row too, and is repeated from there. */
  readonly askToCancel: (jobId: string) => Promise<void>;
  /** Who does not hear it looks again after a few seconds. */
  readonly notify: (notice: Notice) => Promise<void>;
}

/** Those who look on do not mind; a packet for each event of a short job cost its worker as much as recording it. */
const announceEveryMs = 5;

export const signalsOn = (redis: Redis, prefix: string): Signals => {
  const announced = createBatcher<readonly [channel: string, text: string], void>(
    async (events) => {
      const calls = redis.pipeline();
      for (const [channel, text] of events) calls.publish(channel, text);
      await calls.exec();
      return events.map(() => undefined);
    },
    { restMs: announceEveryMs },
  );
  return {
    announce: (jobId, event) => {
      announced.add([jobChannel(prefix, jobId), JSON.stringify(event)]).catch(() => undefined);
    },
    askToCancel: async (jobId) => {
      await redis.publish(cancelChannel(prefix), jobId);
    },
    notify: async (notice) => {
      await redis.publish(noticeChannel(prefix), JSON.stringify(notice)).catch(() => undefined);
    },
  };
};

/** Hears signals; one connection, whatever the number of listeners. */
export interface Ear {
  /** @returns how to stop listening */
  readonly follow: (jobId: string, listener: (event: JobEvent) => void) => Promise<() => void>;
  readonly onCancel: (listener: (jobId: string) => void) => Promise<void>;
  readonly onNotice: (listener: (notice: Notice) => void) => Promise<void>;
  /** Whether what is said now is heard. */
  readonly listens: () => boolean;
  readonly close: () => void;
}

interface Channel {
  readonly listeners: Set<(text: string) => void>;
  readonly subscribed: Promise<unknown>;
}

/** @param redis a connection of its own: one that listens can do nothing else */
export const openEar = (redis: Redis, prefix: string): Ear => {
  const channels = new Map<string, Channel>();
  redis.on('message', (name: string, text: string) => {
    for (const listener of channels.get(name)?.listeners ?? []) listener(text);
  });

  const listen = async (name: string, listener: (text: string) => void): Promise<() => void> => {
    const channel = channels.get(name) ?? { listeners: new Set(), subscribed: redis.subscribe(name) };
    channel.listeners.add(listener);
    channels.set(name, channel);
    // Also who comes second hears nothing before that.
    await channel.subscribed;
    return () => {
      channel.listeners.delete(listener);
      if (channel.listeners.size > 0 || channels.get(name) !== channel) return;
      channels.delete(name);
      redis.unsubscribe(name).catch(() => undefined);
    };
  };

  return {
    follow: (jobId, listener) =>
      listen(jobChannel(prefix, jobId), (text) => {
        const event = eventSchema.safeParse(JSON.parse(text));
        if (event.success) listener(event.data);
      }),
    onCancel: async (listener) => {
      await listen(cancelChannel(prefix), listener);
    },
    onNotice: async (listener) => {
      await listen(noticeChannel(prefix), (text) => {
        const notice = noticeSchema.safeParse(JSON.parse(text));
        if (notice.success) listener(notice.data);
      });
    },
    listens: () => redis.status === 'ready',
    close: () => redis.disconnect(),
  };
};
