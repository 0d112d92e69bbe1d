import type { Queryable } from '#lib/control-db.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export interface JobLogLine {
  readonly jobId: string;
  readonly at: Date;
  readonly level: LogLevel;
  readonly message: string;
}

/** Lines of jobs that are gone meanwhile are dropped. */
export const insertLogLines = async (db: Queryable, lines: readonly JobLogLine[]): Promise<void> => {
  await db.query(
    `insert into job_logs (job_id, at, level, message)
     select new.job_id, new.at, new.level, new.message
     from unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::text[]) with ordinality
       as new (job_id, at, level, message, line)
     where exists (select from jobs where id = new.job_id) order by new.line`,
    [
      lines.map((line) => line.jobId),
      lines.map((line) => line.at),
      lines.map((line) => line.level),
      lines.map((line) => line.message),
    ],
    'insert-job-logs',
  );
};

/** @param percent 0 to 100 */
export const setProgress = async (db: Queryable, jobId: string, percent: number): Promise<void> => {
  await db.query(
    `update jobs set progress = $2 where id = $1 and status = 'running'`,
    [jobId, percent],
    'set-job-progress',
  );
};
