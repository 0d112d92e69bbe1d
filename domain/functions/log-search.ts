/*
 * The logs of a project's functions, the latest run first. They are searched in steps that are each bounded, so that a
 * large log costs its readers more requests and everybody else nothing: see decision 071.
 */
import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { z } from 'zod';
import type { LogLevel, LogLine } from '#domain/jobs/logs.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { createSearchLimit } from '#lib/search-limit.ts';
import { levelBits } from './run-report.ts';

/** One line with its run. */
export interface ProjectLogLine extends LogLine {
  readonly function_id: string;
  readonly invocation_id: string;
  /** Its place among the lines of its run, from 1 on. */
  readonly line: number;
  /** Null: the job of the run is not kept any more. */
  readonly request_id: string | null;
}

export interface LogFilter {
  /** Without regard to case, in the message or the fields. */
  readonly text?: string | undefined;
  readonly functionId?: string | undefined;
  /** Left out: all. */
  readonly levels?: readonly LogLevel[] | undefined;
  readonly since?: Date | undefined;
  /** The request that led to the runs. Live lines do not have it, so it fits none of them. */
  readonly requestId?: string | undefined;
}

interface LogSearch extends LogFilter {
  readonly limit: number;
  /** As an earlier page gave it. */
  readonly cursor?: string | undefined;
}

/** The place behind which a search goes on: lines of that run before that line, and runs that ended earlier. */
interface Place {
  /** Microseconds since 1970; null: it runs. */
  readonly endedAt: number | null;
  readonly id: string;
  /** 0: nothing is left of it. */
  readonly line: number;
}

const placeSchema = z.tuple([z.int().nonnegative().nullable(), z.uuid(), z.int().nonnegative()]);

const cursorOf = ({ endedAt, id, line }: Place): string =>
  Buffer.from(JSON.stringify([endedAt, id, line])).toString('base64url');

const badCursor = (): ServiceError =>
  new ServiceError('validation_failed', 'The query is not valid.', {
    details: [{ path: 'cursor', message: 'must be the `next` of an earlier page' }],
  });

/** @throws {ServiceError} `validation_failed` */
const placeOf = (cursor: string): Place => {
  try {
    const [endedAt, id, line] = placeSchema.parse(JSON.parse(Buffer.from(cursor, 'base64url').toString()));
    return { endedAt, id, line };
  } catch {
    throw badCursor();
  }
};

const start: Place = { endedAt: null, id: 'ffffffff-ffff-ffff-ffff-ffffffffffff', line: Number.MAX_SAFE_INTEGER };

/** The bounds of one statement: some 40 ms of PostgreSQL's time. */
const maxRuns = 1000;
const maxLogBytes = 4 * 1024 * 1024;
/** No further statement is made after that. */
const maxSearchMs = 2000;

interface RunRow {
  readonly id: string;
  readonly function_id: string;
  readonly ended_at: number | null;
  /** JSON text; null: nothing in it fits. */
  readonly logs: string | null;
  readonly request_id: string | null;
}

/** The rows that a step examines, and of these the logs of those that may fit; the last row is always among them. */
const stepOver = (runs: string): string => `
  select id, function_id, ended_at, case when fits then logs end as logs,
    (select j.request_id from jobs j where j.id = examined.id) as request_id
  from (
    select w.*, passes and ($4::text[] is null
        or exists (select from unnest($4::text[]) wanted where strpos(lower(logs), lower(wanted)) > 0)) as fits,
      row_number() over (order by ended_at desc, id desc) = count(*) over () as is_last
    from (
      select r.*, sum(case when passes then bytes else 0 end) over (order by ended_at desc, id desc)
        - case when passes then bytes else 0 end as before
      from (${runs}) r
    ) w
    where before < ${maxLogBytes}
  ) examined
  where fits or is_last order by ended_at desc, id desc`;

// The values of each run are read from where they lie only if its level and its function fit.
const endedStep = stepOver(`
  select i.id, i.function_id, (extract(epoch from i.finished_at) * 1000000)::bigint as ended_at, i.logs,
    octet_length(i.logs) as bytes,
    ($2::uuid is null or i.function_id = $2) and ($3::int is null or coalesce(i.log_levels, $3) & $3 <> 0) as passes
  from invocations i
  where i.project_id = $1 and i.logs is not null
    and ($8::text is null or i.id in (select j.id from jobs j where j.request_id = $8)) and i.finished_at >= coalesce($5::timestamptz, '-infinity')
    and (i.finished_at, i.id) <=
      (coalesce(timestamptz 'epoch' + $6::bigint * interval '1 microsecond', 'infinity'), $7::uuid)
  order by i.finished_at desc, i.id desc limit ${maxRuns}`);

const runningStep = stepOver(`
  select j.id, (string_to_array(left(j.data, 200), '"'))[4]::uuid as function_id, null::bigint as ended_at,
    '[' || string_agg(p.body, ',' order by p.id) || ']' as logs, sum(octet_length(p.body)) as bytes,
    $2::uuid is null or (string_to_array(left(j.data, 200), '"'))[4]::uuid = $2 as passes
  from jobs j join job_log_parts p on p.job_id = j.id
  where j.project_id = $1 and j.type = 'function.invoke' and j.status = 'running' and j.id <= $7::uuid
    and ($8::text is null or j.request_id = $8)
    and $3::int is not distinct from $3 and $5::timestamptz is not distinct from $5
    and $6::bigint is not distinct from $6
  group by j.id`);

/** A text as it stands within JSON: as part of a string, and, where that is another, as part of the JSON itself. */
const formsOf = (text: string): string[] => [...new Set([text, JSON.stringify(text).slice(1, -1)])];

const bitsOf = (levels: readonly LogLevel[]): number => levels.reduce((bits, level) => bits | levelBits[level], 0);

/** Whether a line is one that a filter asks for. */
export const fitsFilter = ({ text, functionId, levels, since, requestId }: LogFilter) => {
  const wanted = text?.toLowerCase();
  const forms = wanted === undefined ? [] : formsOf(wanted);
  const isFound = ({ message, fields }: LogLine): boolean => {
    if (wanted === undefined || message.toLowerCase().includes(wanted)) return true;
    const inFields = fields === undefined ? '' : JSON.stringify(fields).toLowerCase();
    return forms.some((form) => inFields.includes(form));
  };
  return (line: ProjectLogLine): boolean =>
    (functionId === undefined || line.function_id === functionId) &&
    (requestId === undefined || line.request_id === requestId) &&
    (levels === undefined || levels.includes(line.level)) &&
    (since === undefined || Date.parse(line.ts) >= since.getTime()) &&
    isFound(line);
};

const linesOf = ({ id, function_id, request_id, logs }: RunRow): ProjectLogLine[] =>
  (JSON.parse(logs ?? '[]') as LogLine[]).map((line, place) => ({
    ...line,
    function_id,
    invocation_id: id,
    line: place + 1,
    request_id,
  }));

const stepRows = (db: Queryable, projectId: string, search: LogSearch, from: Place): Promise<RunRow[]> => {
  const { text, functionId, levels, since } = search;
  const values = [
    projectId,
    functionId ?? null,
    levels === undefined ? null : bitsOf(levels),
    text === undefined ? null : formsOf(text),
    since ?? null,
    from.endedAt,
    from.id,
    search.requestId ?? null,
  ];
  return db.query<RunRow>(from.endedAt === null ? runningStep : endedStep, values);
};

/** The lines of a page so far. */
interface Page {
  readonly logs: ProjectLogLine[];
  /** Null: there is nothing behind it. */
  next: Place | null;
}

/** Takes the lines of one run that fit, the last first. */
const takeLines = (page: Page, row: RunRow, from: Place, search: LogSearch): void => {
  const fits = fitsFilter(search);
  const before = row.id === from.id ? from.line : Number.MAX_SAFE_INTEGER;
  for (const line of linesOf(row).toReversed()) {
    if (page.logs.length === search.limit) return;
    if (line.line >= before || !fits(line)) continue;
    page.logs.push(line);
    page.next = { endedAt: row.ended_at, id: row.id, line: line.line };
  }
  if (page.logs.length < search.limit) page.next = { endedAt: row.ended_at, id: row.id, line: 0 };
};

/** Behind the runs that go on come those that have ended; their ids are no bound for them. */
const endedFrom: Place = { ...start, endedAt: Number.MAX_SAFE_INTEGER };

/** @returns whether anything is left to examine */
const step = async (db: Queryable, projectId: string, search: LogSearch, page: Page): Promise<boolean> => {
  const from = page.next ?? start;
  const rows = await stepRows(db, projectId, search, from);
  for (const row of rows) {
    if (page.logs.length === search.limit) return true;
    // A log of 256 KB takes some 2 ms.
    await yieldToOthers();
    takeLines(page, row, from, search);
  }
  const isOver = rows.every(({ id }) => id === from.id && from.line === 0);
  if (isOver) page.next = from.endedAt === null ? endedFrom : null;
  return page.next !== null;
};

const withPlace = createSearchLimit("a project's logs");

/**
 * The lines that fit, the latest run first and of each run the last line first; of runs that go on what they have logged
 * so far. A search that has taken 2 s ends with what it has found, be it nothing; `next` goes on behind that.
 * @throws {ServiceError} `validation_failed` for a cursor of nobody's; those of `createSearchLimit`
 */
export const searchLogs = async (
  db: Queryable,
  projectId: string,
  search: LogSearch,
): Promise<{ readonly logs: ProjectLogLine[]; readonly next: string | null }> => {
  const page: Page = { logs: [], next: search.cursor === undefined ? start : placeOf(search.cursor) };
  const endsAt = performance.now() + maxSearchMs;
  await withPlace(projectId, async () => {
    while (await step(db, projectId, search, page)) {
      if (page.logs.length === search.limit || performance.now() > endsAt) return;
    }
  });
  return { logs: page.logs, next: page.next && cursorOf(page.next) };
};
