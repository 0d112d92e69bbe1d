import type { Queryable } from '#lib/control-db.ts';
import { textArray } from '#lib/text-array.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export interface LogLine {
  /** ISO 8601, UTC, milliseconds. */
  readonly ts: string;
  readonly level: LogLevel;
  readonly message: string;
  /** An object beside the text: `sdk.log` of functions. */
  readonly fields?: Readonly<Record<string, unknown>> | undefined;
}

/** Lines of one run that were written at about the same time. */
export interface LogPart {
  readonly jobId: string;
  /** The place of the first among the lines of the run, from 1 on. */
  readonly firstLine: number;
  readonly lines: readonly LogLine[];
}

const bodyOf = (lines: readonly LogLine[]): string => JSON.stringify(lines).slice(1, -1);

const linesOf = (body: string): LogLine[] => JSON.parse(`[${body}]`) as LogLine[];

/** Parts of jobs that are gone meanwhile are dropped. */
export const insertLogParts = async (db: Queryable, parts: readonly LogPart[]): Promise<void> => {
  await db.query(
    `insert into job_log_parts (job_id, first_line, lines, body)
     select new.job_id, new.first_line, new.lines, new.body
     from unnest($1::uuid[], $2::int[], $3::int[], $4::text[]) with ordinality
       as new (job_id, first_line, lines, body, place)
     where exists (select from jobs where id = new.job_id) order by new.place`,
    [
      parts.map((part) => part.jobId),
      parts.map((part) => part.firstLine),
      parts.map((part) => part.lines.length),
      textArray(parts.map((part) => bodyOf(part.lines))),
    ],
    'insert-log-parts',
  );
};

export interface KeptLine extends LogLine {
  readonly line: number;
}

interface PartRow {
  readonly first_line: number;
  readonly body: string;
}

/** Returns the lines that a run has logged after the given line, in order and without a gap. */
export const logLinesAfter = async (db: Queryable, jobId: string, line: number): Promise<KeptLine[]> => {
  const parts = await db.query<PartRow>(
    `select first_line, body from job_log_parts where job_id = $1 and first_line + lines > $2 + 1 order by first_line`,
    [jobId, line],
    'job-log-lines',
  );
  const numbered = parts.flatMap(({ first_line: first, body }) =>
    linesOf(body).map((line, place) => ({ line: first + place, ...line })),
  );
  const rows = numbered.filter((kept) => kept.line > line);
  const gap = rows.findIndex((row, place) => row.line !== line + place + 1);
  return rows.slice(0, gap === -1 ? rows.length : gap);
};

/** The last lines of a job, the runs before the present one included. */
export const lastLogLines = async (db: Queryable, jobId: string, max: number): Promise<LogLine[]> => {
  const parts = await db.query<PartRow>(
    `select first_line, body from
       (select id, first_line, body, sum(lines) over (order by id desc) - lines as after
        from job_log_parts where job_id = $1) latest
     where after < $2 order by id`,
    [jobId, max],
  );
  return parts.flatMap(({ body }) => linesOf(body)).slice(-max);
};

/**
 * Rows that somebody else changes just now are left out: two statements that each wait for a row of the other's would
 * not end.
 * @param percents 0 to 100, by the jobs' ids
 */
export const setProgress = async (db: Queryable, percents: ReadonlyMap<string, number>): Promise<void> => {
  await db.query('select set_progress($1, $2)', [[...percents.keys()], [...percents.values()]], 'set-job-progress');
};
