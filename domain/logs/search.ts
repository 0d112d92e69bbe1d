import type { LogLevel } from '#domain/jobs/logs.ts';
import type { Queryable } from '#lib/control-db.ts';
import { lastId, readPage } from '#lib/examined-page.ts';
import { firstIdAt } from '#lib/ids.ts';
import type { LineSource, ProjectLine } from '#queues/signals.ts';
import {
  type CallRow,
  type MailRow,
  type RequestRow,
  callLevels,
  callLine,
  mailLevels,
  mailLine,
  requestLine,
} from './lines.ts';

/** Which lines; what is left out does not matter. */
export interface LineFilter {
  readonly sources: readonly LineSource[];
  /** Without regard to case, in the message or the fields. */
  readonly text?: string | undefined;
  readonly levels?: readonly LogLevel[] | undefined;
  readonly since?: Date | undefined;
  readonly requestId?: string | undefined;
}

interface LineSearch extends LineFilter {
  /** The id of a line: only earlier ones. */
  readonly before?: string | undefined;
  readonly limit: number;
}

const inRange = 'id < $2 and id >= $3';

// Each reads the rows of one table by the index of its project. A line is made of its row once it is known to be shown.
const requests = `
  select id, 'request' as made_of, message || ' ' || fields as searched,
    $6::text[] is null or level = any ($6) as has_level
  from project_log_lines where project_id = $1 and ${inRange} and source = any ($4)
    and ($5::text is null or request_id = $5)`;

const mails = `
  select id, 'mail' as made_of, concat_ws(' ', template, 'to', recipient, status, error, response) as searched,
    $7::text[] is null or status = any ($7) as has_level
  from emails where 'mail' = any ($4) and project_id = $1 and ${inRange}
    and ($5::text is null or job_id in (select j.id from jobs j where j.request_id = $5))`;

const calls = `
  select id, 'call' as made_of,
    concat_ws(' ', kind, 'by', provider || '/' || model, status, error_code, error_message) as searched,
    $8::text[] is null or status = any ($8) as has_level
  from ai_calls where 'ai' = any ($4) and project_id = $1 and ${inRange} and status <> 'open'
    and ($5::text is null or request_id = $5)`;

const columns = `id, made_of, case made_of
  when 'request' then (select to_json(r) from project_log_lines r where r.id = examined.id)
  when 'mail' then (select to_json(m) from (
    select e.id, e.created_at, e.template, e.recipient, e.status, e.attempts, e.response, e.error,
      (select j.request_id from jobs j where j.id = e.job_id) as request_id
    from emails e where e.id = examined.id) m)
  else (select to_json(c) from (
    select a.id, a.started_at as created_at, a.kind, a.provider, a.model, a.status, a.latency_ms, a.retries,
      a.error_code, a.error_message, a.request_id
    from ai_calls a where a.id = examined.id) c)
  end as row`;

type Found = { readonly id: string } & (
  | { readonly made_of: 'request'; readonly row: RequestRow | null }
  | { readonly made_of: 'mail'; readonly row: MailRow | null }
  | { readonly made_of: 'call'; readonly row: CallRow | null }
);

const lineOf = (found: Found): ProjectLine | null => {
  // It was deleted while the page was read.
  if (found.row === null) return null;
  if (found.made_of === 'mail') return mailLine(found.row);
  return found.made_of === 'call' ? callLine(found.row) : requestLine(found.row);
};

const pattern = (text: string): string => `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;

const statusesOf = (of: Readonly<Record<string, LogLevel>>, levels: readonly LogLevel[] | undefined): string[] | null =>
  levels === undefined ? null : Object.keys(of).filter((status) => levels.includes(of[status] ?? 'info'));

/**
 * Lines of a project's log that are not the lines of runs, the latest first.
 * @returns `next` is the `before` of the page behind; null at the end
 */
export const searchLines = async (
  db: Queryable,
  projectId: string,
  { sources, text, levels, since, requestId, before, limit }: LineSearch,
): Promise<{ readonly lines: ProjectLine[]; readonly next: string | null }> => {
  const { rows, next } = await readPage<Found>(db, {
    examined: [requests, mails, calls],
    columns,
    fits: 'has_level and ($9::text is null or searched ilike $9)',
    isFiltered: text !== undefined || levels !== undefined,
    values: [
      projectId,
      before ?? lastId,
      firstIdAt(since?.getTime() ?? 0),
      sources,
      requestId ?? null,
      levels ?? null,
      statusesOf(mailLevels, levels),
      statusesOf(callLevels, levels),
      text === undefined ? null : pattern(text),
    ],
    limit,
  });
  return { lines: rows.map(lineOf).filter((line) => line !== null), next };
};

/** Whether a line is one that a filter asks for. */
export const fitsLine =
  ({ sources, text, levels, since, requestId }: LineFilter) =>
  (line: ProjectLine): boolean =>
    sources.includes(line.source) &&
    (requestId === undefined || line.request_id === requestId) &&
    (levels === undefined || levels.includes(line.level)) &&
    (since === undefined || Date.parse(line.ts) >= since.getTime()) &&
    (text === undefined || `${line.message} ${JSON.stringify(line.fields)}`.toLowerCase().includes(text.toLowerCase()));
