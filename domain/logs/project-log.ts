import { LRUCache } from 'lru-cache';
import type { LogLevel } from '#domain/jobs/logs.ts';
import type { Queryable } from '#lib/control-db.ts';
import { firstIdAt, newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { oneLineOf } from '#lib/one-line.ts';
import type { LineSource, ProjectLine, Signals } from '#queues/signals.ts';
import { requestLine } from './lines.ts';

/*
 * Lines about requests: noted once their answers are on their way, and written by the batch. What a project can write is
 * bounded: lines a minute and process, characters of a line, rows, and days.
 */

/** More lines of a project in one minute are counted, not kept. */
const maxPerMinute = 300;
const maxMessageLength = 500;
const maxFieldsLength = 1000;
/** Older rows of a project go first. */
export const maxRows = 10_000;
/** A project is trimmed after so many new rows of a process; so many more it may have meanwhile. */
const trimEvery = 500;
const keptDays = 7;
/** Lines that wait for PostgreSQL in one process, some 10 MB; further ones are lost. */
const maxWaiting = 10_000;
const batchSize = 500;
const flushMs = 300;

/** A request, as far as its project's log says something about it. */
export interface NotedRequest {
  readonly projectId: string;
  readonly source: LineSource;
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly requestId: string;
}

export interface ProjectLog {
  /** Costs the request nothing: the line is written later. */
  readonly note: (request: NotedRequest) => void;
  /** Resolves once what was noted is written; lines that PostgreSQL does not take now wait on. */
  readonly flush: () => Promise<void>;
  /** Writes what waits, once. */
  readonly stop: () => Promise<void>;
}

interface NewLine extends Omit<NotedRequest, 'fields' | 'requestId'> {
  /** JSON text. */
  readonly fields: string;
  readonly requestId: string | null;
}

interface Line extends NewLine {
  readonly id: string;
  readonly at: Date;
}

const write = async (db: Queryable, lines: readonly Line[]): Promise<void> => {
  await db.query(
    `insert into project_log_lines (id, project_id, source, level, message, fields, request_id, created_at)
     select new.id, new.project_id, new.source, new.level, new.message, new.fields, new.request_id, new.created_at
     from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
       as new (id, project_id, source, level, message, fields, request_id, created_at)
     join projects p on p.id = new.project_id
     on conflict (id) do nothing`,
    [
      lines.map(({ id }) => id),
      lines.map(({ projectId }) => projectId),
      lines.map(({ source }) => source),
      lines.map(({ level }) => level),
      lines.map(({ message }) => message),
      lines.map(({ fields }) => fields),
      lines.map(({ requestId }) => requestId),
      lines.map(({ at }) => at),
    ],
    'note-requests',
  );
};

const trim = async (db: Queryable, projectId: string): Promise<void> => {
  await db.query(
    `delete from project_log_lines where project_id = $1 and id <= (
       select id from project_log_lines where project_id = $1 order by id desc offset ${maxRows} limit 1)`,
    [projectId],
    'trim-project-log',
  );
};

interface Counted {
  noted: number;
  leftOut: number;
}

const minuteMs = 60_000;

/** Counts the lines of projects by minute. */
const createCounts = (leftOut: (projectId: string, lines: number) => void) => {
  const counts = new Map<string, Counted>();
  let current = 0;
  /** Ends the minute before: what was left out of it is a line of its own. */
  const turn = (minute: number): void => {
    const ended = [...counts];
    counts.clear();
    current = minute;
    for (const [projectId, counted] of ended) if (counted.leftOut > 0) leftOut(projectId, counted.leftOut);
  };
  return (projectId: string): boolean => {
    const minute = Math.floor(Date.now() / minuteMs);
    if (minute !== current) turn(minute);
    const counted = counts.get(projectId) ?? { noted: 0, leftOut: 0 };
    counts.set(projectId, counted);
    if (counted.noted < maxPerMinute) {
      counted.noted += 1;
      return true;
    }
    counted.leftOut += 1;
    return false;
  };
};

const fieldsText = (fields: Readonly<Record<string, unknown>>): string => {
  const text = JSON.stringify(fields);
  return text.length > maxFieldsLength ? '{"is_cut":true}' : text;
};

/** Trims projects now and then. @returns a function for so many new rows of a project */
const createTrimmer = (db: Queryable) => {
  /** New rows since a project was trimmed; one that is not here may have any number. */
  const written = new LRUCache<string, number>({ max: 10_000 });
  return async (projectId: string, lines: number): Promise<void> => {
    const since = (written.get(projectId) ?? trimEvery) + lines;
    if (since < trimEvery) return void written.set(projectId, since);
    await trim(db, projectId);
    written.set(projectId, 0);
  };
};

const leftOutLine = (projectId: string, lines: number): NewLine => ({
  projectId,
  source: 'api',
  level: 'warn',
  message: `${lines} further requests within a minute are not in this log.`,
  fields: '{}',
  requestId: null,
});

const shownOf = ({ requestId, at, ...line }: Line): ProjectLine =>
  requestLine({ ...line, request_id: requestId, created_at: at });

interface ProjectLogDeps {
  readonly db: Queryable;
  readonly signals: Pick<Signals, 'announceLines'>;
  readonly log: Log;
}

export const createProjectLog = ({ db, signals, log }: ProjectLogDeps): ProjectLog => {
  let waiting: Line[] = [];
  let lost = 0;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  const trimAfter = createTrimmer(db);

  const writeAll = async (): Promise<void> => {
    while (waiting.length > 0) {
      const lines = waiting.slice(0, batchSize);
      await write(db, lines);
      waiting = waiting.slice(lines.length);
      for (const [projectId, ofProject] of Map.groupBy(lines, (line) => line.projectId)) {
        signals.announceLines(projectId, ofProject.map(shownOf));
        await trimAfter(projectId, ofProject.length);
      }
    }
    if (lost > 0) log.warn({ lines: lost }, 'lines of projects’ logs were lost: too many waited for PostgreSQL');
    lost = 0;
  };
  const flush = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    running ??= writeAll()
      .catch((error: unknown) => log.warn({ err: error }, 'lines of projects’ logs could not be written; trying again'))
      .finally(() => {
        running = undefined;
        if (waiting.length > 0) start();
      });
    return running;
  };
  const start = (): void => {
    timer ??= setTimeout(() => void flush(), flushMs).unref();
  };
  const add = (line: NewLine): void => {
    if (waiting.length >= maxWaiting) return void (lost += 1);
    waiting.push({ ...line, id: newId(), at: new Date() });
    start();
  };
  const mayNote = createCounts((projectId, lines) => add(leftOutLine(projectId, lines)));

  return {
    note: ({ fields, message, ...request }) => {
      if (!mayNote(request.projectId)) return;
      add({ ...request, message: oneLineOf(message, maxMessageLength), fields: fieldsText(fields) });
    },
    flush,
    stop: async () => {
      await flush();
      clearTimeout(timer);
    },
  };
};

/** Lines are kept for a week. Answers how many went. */
export const deleteOldLines = async (db: Queryable, max: number, now = Date.now()): Promise<number> => {
  const gone = await db.query(
    `delete from project_log_lines where id in (
       select id from project_log_lines where id < $1 order by id limit $2) returning id`,
    [firstIdAt(now - keptDays * 24 * 3_600_000), max],
  );
  return gone.length;
};
