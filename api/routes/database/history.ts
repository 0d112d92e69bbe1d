import { z } from 'zod';
import { forgetRuns, listRuns, noteRun } from '#domain/database/saved-sql/history.ts';
import { Refusal, toServiceError } from '#lib/errors.ts';
import { area, projectPath } from '#api/shapes/database.ts';
import { type InProject, inProject } from '../../access.ts';
import type { Call } from '../../call.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { id, instant, page } from '../../fields.ts';

type MemberCall = Call<InProject>;

const readerOf = ({ project, user }: Pick<MemberCall, 'project' | 'user'>) => ({
  projectId: project.id,
  userId: user.id,
});

/** The last one in the text is the answer's own: quotes within values are escaped, and rows come before it. */
const rowCountOf = (answer: string): number | null => {
  const name = '"row_count":';
  const at = answer.lastIndexOf(name);
  const count = Number.parseInt(answer.slice(at + name.length, at + name.length + 20), 10);
  return at === -1 || Number.isNaN(count) ? null : count;
};

const codeOf = (error: unknown): string =>
  error instanceof Refusal && 'code' in error ? String(error.code) : toServiceError(error).code;

/** Runs it, and adds it to the caller's history. That a history is not written fails nothing. */
export const remembered = async (call: MemberCall, sql: string, run: () => Promise<string>): Promise<string> => {
  const began = performance.now();
  const note = async (end: { readonly row_count: number | null; readonly error: string | null }): Promise<void> => {
    const one = { sql, duration_ms: performance.now() - began, ...end };
    await noteRun(call.deps.db, readerOf(call), one).catch((error: unknown) =>
      call.deps.log.warn({ err: error }, 'the history of statements could not be written'),
    );
  };
  try {
    const answer = await run();
    await note({ row_count: rowCountOf(answer), error: null });
    return answer;
  } catch (error) {
    await note({ row_count: null, error: codeOf(error) });
    throw error;
  }
};

const pastRun = z.object({
  id,
  sql: z.string().describe('Its first 16,000 characters.'),
  duration_ms: z.int(),
  row_count: z.int().nullable(),
  error: z.string().nullable().describe('The code of the failure.'),
  ran_at: instant,
});

/** The statements that a member ran by hand; no other member sees them (contract, section 13). */
export const historyEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/db/history',
    area,
    summary: 'Your last 200 statements that were run with `remember`',
    access: inProject('viewer'),
    params: projectPath,
    query: page,
    response: z.object({ runs: z.array(pastRun), total: z.int() }),
    handle: ({ query }, call) => listRuns(call.db, readerOf(call), query),
  }),
  endpoint({
    method: 'delete',
    path: '/projects/{project_id}/db/history',
    area,
    summary: 'Forget your history of this project',
    access: inProject('viewer'),
    params: projectPath,
    handle: (_input, call) => forgetRuns(call.db, readerOf(call)),
  }),
];
