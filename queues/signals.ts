import type { Redis } from 'ioredis';
import { z } from 'zod';
import { createBatcher } from '#lib/batch.ts';

const loggedSchema = z.object({
  ts: z.string(),
  level: z.string(),
  message: z.string(),
  fields: z.record(z.string(), z.unknown()).optional(),
});

/** An event of a job while it runs. It is for present listeners only: the job's row keeps the state that counts. */
const jobEvents = [
  z.object({ event: z.literal('status'), status: z.string(), attempt: z.number() }),
  z.object({ event: z.literal('progress'), progress: z.number() }),
  z.object({
    event: z.literal('log'),
    ts: z.string(),
    level: z.string(),
    message: z.string(),
    fields: z.record(z.string(), z.unknown()).optional(),
    /** Its place among the lines of its run, from 1 on. */
    line: z.number().optional(),
  }),
] as const;
const eventSchema = z.discriminatedUnion('event', jobEvents);
export type JobEvent = z.output<typeof eventSchema>;

/** On the wire, lines travel as they were flushed; listeners receive them one by one. */
const sentSchema = z.discriminatedUnion('event', [
  ...jobEvents,
  z.object({
    event: z.literal('logs'),
    first_line: z.number(),
    lines: z.array(loggedSchema).readonly(),
  }),
]);
type SentEvent = z.output<typeof sentSchema>;
/** A change of a job's status, as it is published. */
export type JobStatusEvent = Extract<JobEvent, { readonly event: 'status' }>;

const eventsOf = (sent: SentEvent): readonly JobEvent[] =>
  sent.event === 'logs'
    ? sent.lines.map((line, place) => ({ event: 'log', ...line, line: sent.first_line + place }))
    : [sent];

/** The lines of a run on their way to those who listen to its whole project. */
const runLinesSchema = z.object({
  function_id: z.string(),
  invocation_id: z.string(),
  first_line: z.number(),
  lines: z.array(loggedSchema).readonly(),
});
type RunLinesEvent = z.output<typeof runLinesSchema>;

/** The sources of lines of a project's log that are not the lines of a run. */
export const lineSources = ['mail', 'auth', 'data', 'storage', 'ai', 'api'] as const;
export type LineSource = (typeof lineSources)[number];

const projectLineSchema = z.object({
  /** A line about a mail or a call of a model has the id of that, and changes with it. */
  id: z.string(),
  ts: z.string(),
  level: z.enum(['debug', 'info', 'warn', 'error']),
  source: z.enum(lineSources),
  message: z.string(),
  fields: z.record(z.string(), z.unknown()),
  request_id: z.string().nullable(),
  email_id: z.string().optional(),
  ai_call_id: z.string().optional(),
});
/** A line of a project's log that is not the line of a run. */
export type ProjectLine = z.output<typeof projectLineSchema>;

/** Such lines on their way to those who listen to the log. */
const projectLinesSchema = z.object({ lines: z.array(projectLineSchema).readonly() });
type ProjectLinesEvent = z.output<typeof projectLinesSchema>;

const logsSchema = z.union([runLinesSchema, projectLinesSchema]);
export type LogsEvent = z.output<typeof logsSchema>;

/** The function whose lines these are, and its project. */
export interface LinesSource {
  readonly projectId: string;
  readonly functionId: string;
}

const logsChannel = (prefix: string, projectId: string): string => `${prefix}:logs:${projectId}`;

export const jobChannel = (prefix: string, jobId: string): string => `${prefix}:job:${jobId}`;
const cancelChannel = (prefix: string): string => `${prefix}:cancel`;
const deliveryChannel = (prefix: string, webhookId: string): string => `${prefix}:listener:${webhookId}`;
const noticeChannel = (prefix: string): string => `${prefix}:notices`;

/**
 * A change that processes announce to each other, so that none uses outdated data: of a project, its keys, its tables
 * or its flags.
 */
export interface Notice {
  readonly about: 'project' | 'schema' | 'flags';
  readonly projectId: string;
}

const noticeSchema = z.object({ about: z.enum(['project', 'schema', 'flags']), projectId: z.string() });

export interface Signals {
  /**
   * Sent to present listeners; lost when Redis is away.
   * @param source of lines: who listens to its project receives them, too
   */
  readonly announce: (jobId: string, event: SentEvent, source?: LinesSource) => void;
  /** Lines of a project's log, for those who listen to it. */
  readonly announceLines: (projectId: string, lines: readonly ProjectLine[]) => void;
  /** Whether something that was announced of this job is yet to be sent. */
  readonly isSending: (jobId: string) => boolean;
  /**
   * Asks the worker that runs the job to stop it. The request stands in the job's row too, and is repeated from there.
   */
  readonly requestCancel: (jobId: string) => Promise<void>;
  /** A process that misses it reads again after a few seconds. */
  readonly notify: (notice: Notice) => Promise<void>;
  /**
   * Hands a delivery to the process that holds the connection of a listener.
   * @returns whether it was there
   */
  readonly deliver: (webhookId: string, text: string) => Promise<boolean>;
}

/** Listeners tolerate the delay, and a packet for each event of a short job cost its worker as much as recording it. */
const announceEveryMs = 5;

interface Announced {
  readonly channel: string;
  /** Only for those who listen already. */
  readonly isLog: boolean;
  readonly text: () => string;
}

const linesOfProject = (
  prefix: string,
  { projectId, functionId }: LinesSource,
  jobId: string,
  { first_line, lines }: Extract<SentEvent, { event: 'logs' }>,
): Announced => {
  const event: RunLinesEvent = { function_id: functionId, invocation_id: jobId, first_line, lines };
  return { channel: logsChannel(prefix, projectId), isLog: true, text: () => JSON.stringify(event) };
};

export const signalsOn = (redis: Redis, prefix: string): Signals => {
  /** Returns the channels of log lines that have subscribers: most runs have none, and a log may have 256 KB. */
  const listenedTo = async (events: readonly Announced[]): Promise<ReadonlySet<unknown>> => {
    const channels = [...new Set(events.filter(({ isLog }) => isLog).map(({ channel }) => channel))];
    if (channels.length === 0) return new Set();
    const counts = await redis.pubsub('NUMSUB', ...channels);
    return new Set(channels.filter((_, place) => Number(counts[place * 2 + 1]) > 0));
  };
  const announced = createBatcher<Announced, void>(
    async (events) => {
      const listened = await listenedTo(events);
      const calls = redis.pipeline();
      for (const { channel, isLog, text } of events)
        if (!isLog || listened.has(channel)) calls.publish(channel, text());
      await calls.exec();
      return events.map(() => undefined);
    },
    { restMs: announceEveryMs },
  );
  const sending = new Map<string, Promise<void>>();
  return {
    announce: (jobId, event, source) => {
      const channel = jobChannel(prefix, jobId);
      const isLog = event.event === 'logs';
      if (isLog && source !== undefined)
        announced.add(linesOfProject(prefix, source, jobId, event)).catch(() => undefined);
      const sent = announced
        .add({ channel, isLog, text: () => JSON.stringify(event) })
        .catch(() => undefined)
        .finally(() => {
          if (sending.get(jobId) === sent) sending.delete(jobId);
        });
      sending.set(jobId, sent);
    },
    announceLines: (projectId, lines) => {
      const event: ProjectLinesEvent = { lines };
      announced
        .add({ channel: logsChannel(prefix, projectId), isLog: true, text: () => JSON.stringify(event) })
        .catch(() => undefined);
    },
    isSending: (jobId) => sending.has(jobId),
    requestCancel: async (jobId) => {
      await redis.publish(cancelChannel(prefix), jobId);
    },
    deliver: async (webhookId, text) => (await redis.publish(deliveryChannel(prefix, webhookId), text)) > 0,
    notify: async (notice) => {
      await redis.publish(noticeChannel(prefix), JSON.stringify(notice)).catch(() => undefined);
    },
  };
};

/** Receives signals over one connection, whatever the number of listeners. */
export interface Subscriber {
  /** @returns how to stop listening */
  readonly follow: (jobId: string, listener: (event: JobEvent) => void) => Promise<() => void>;
  /**
   * The lines of all runs of a project, and the other lines of its log.
   * @returns how to stop listening
   */
  readonly followLogs: (projectId: string, listener: (event: LogsEvent) => void) => Promise<() => void>;
  /**
   * The deliveries to a listener of webhooks.
   * @returns how to stop listening
   */
  readonly followDeliveries: (webhookId: string, listener: (text: string) => void) => Promise<() => void>;
  readonly onCancel: (listener: (jobId: string) => void) => Promise<void>;
  readonly onNotice: (listener: (notice: Notice) => void) => Promise<void>;
  /** Reports of API processes about the answers that this process sends; see answer-streams.ts. */
  readonly onReport: (channel: string, listener: (text: string) => void) => Promise<void>;
  /** Whether messages that are published now arrive. */
  readonly isSubscribed: () => boolean;
  readonly close: () => void;
}

interface Channel {
  readonly listeners: Set<(text: string) => void>;
  readonly subscribed: Promise<unknown>;
}

/** @param redis a connection of its own: one that listens can do nothing else */
export const openSubscriber = (redis: Redis, prefix: string): Subscriber => {
  const channels = new Map<string, Channel>();
  redis.on('message', (name: string, text: string) => {
    for (const listener of channels.get(name)?.listeners ?? []) listener(text);
  });

  const listen = async (name: string, listener: (text: string) => void): Promise<() => void> => {
    const channel = channels.get(name) ?? { listeners: new Set(), subscribed: redis.subscribe(name) };
    channel.listeners.add(listener);
    channels.set(name, channel);
    // A second listener of a channel, too, receives nothing before the subscription is confirmed.
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
        const sent = sentSchema.safeParse(JSON.parse(text));
        if (sent.success) for (const event of eventsOf(sent.data)) listener(event);
      }),
    followLogs: (projectId, listener) =>
      listen(logsChannel(prefix, projectId), (text) => {
        const sent = logsSchema.safeParse(JSON.parse(text));
        if (sent.success) listener(sent.data);
      }),
    followDeliveries: (webhookId, listener) => listen(deliveryChannel(prefix, webhookId), listener),
    onCancel: async (listener) => {
      await listen(cancelChannel(prefix), listener);
    },
    onNotice: async (listener) => {
      await listen(noticeChannel(prefix), (text) => {
        const notice = noticeSchema.safeParse(JSON.parse(text));
        if (notice.success) listener(notice.data);
      });
    },
    onReport: async (channel, listener) => {
      await listen(channel, listener);
    },
    isSubscribed: () => redis.status === 'ready',
    close: () => redis.disconnect(),
  };
};
