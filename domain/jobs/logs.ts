import type { Queryable } from '#lib/control-db.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export interface JobLogLine {
  readonly jobId: string;
  readonly at: Date;
  readonly level: LogLevel;
  readonly message: string;
  /** Its place among the lines of its run, from 1 on. */
  readonly line?: number;
}

/** Lines of jobs that are gone meanwhile are dropped. */
export const insertLogLines = async (db: Queryable, lines: readonly JobLogLine[]): Promise<void> => {
  await db.query(
    `insert into job_logs (job_id, at, level, message, line)
     select new.job_id, new.at, new.level, new.message, new.line
     from unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::text[], $5::int[]) with ordinality
       as new (job_id, at, level, message, line, place)
     where exists (select from jobs where id = new.job_id) order by new.place`,
    [
      lines.map((line) => line.jobId),
      lines.map((line) => line.at),
      lines.map((line) => line.level),
      lines.map((line) => line.message),
      lines.map((line) => line.line ?? null),
    ],
    'insert-job-logs',
  );
};

export interface KeptLine {
  readonly line: number;
  readonly ts: string;
  readonly level: LogLevel;
  readonly message: string;
}

/** What a run has logged so far, after that line, in order and without a gap. */
export const logLinesAfter = async (db: Queryable, jobId: string, line: number): Promise<KeptLine[]> => {
  const rows = await db.query<Omit<KeptLine, 'ts'> & { at: Date }>(
    'select line, at, level, message from job_logs where job_id = $1 and line > $2 order by line',
    [jobId, line],
    'job-log-lines',
  );
  const gap = rows.findIndex((row, i) => row.line !== line + i + 1);
  return rows.slice(0, gap === -1 ? rows.length : gap).map(({ at, ...row }) => ({ ...row, ts: at.toISOString() }));
};

/**
 * Rows that somebody else changes just now are left out: two statements that each wait for a row of the other's would not
 * end.
 * @param percents 0 to 100, by the jobs' ids
 */
export const setProgress = async (db: Queryable, percents: ReadonlyMap<string, number>): Promise<void> => {
  await db.query('select set_progress($1, $2)', [[...percents.keys()], [...percents.values()]], 'set-job-progress');
};
