import type { MonthlyCaps } from '#domain/jobs/usage.ts';
import type { Project } from '#domain/projects/store.ts';
import { type Queryable, one } from '#lib/control-db.ts';
import type { JobRequest } from '#domain/jobs/jobs.ts';
import { requestFor, requireActive } from './functions.ts';
import type { CodeTexts } from './store.ts';

/** Code that is run without being deployed. */
interface Draft {
  readonly functionId: string;
  readonly entryPoint: string;
  readonly texts: CodeTexts;
}

interface DraftRun {
  /** JSON text. */
  readonly payload: string;
  readonly requestId: string;
  readonly caps: MonthlyCaps;
}

/** Drafts that a project has at a time; they are up to some megabytes each, and are needed until their run has begun. */
const maxDrafts = 10;

const nextNumber = async (db: Queryable): Promise<number> => {
  const { number } = await one(db.query<{ number: number }>(`select nextval('function_draft_numbers')::int as number`));
  return -number;
};

const insertDraft = async (
  db: Queryable,
  projectId: string,
  version: number,
  { functionId, entryPoint, texts }: Draft,
): Promise<void> => {
  await db.query(
    `delete from function_drafts where project_id = $1 and (created_at < now() - interval '1 day' or version in (
       select version from function_drafts where project_id = $1 order by created_at desc offset $2))`,
    [projectId, maxDrafts - 1],
  );
  await db.query(
    `insert into function_drafts (function_id, version, project_id, entry_point, entrypoint, files, compiled)
     values ($1, $2, $3, $4, $5, $6, $7)`,
    [functionId, version, projectId, entryPoint, texts.entrypoint, texts.files, texts.compiled],
  );
};

/**
 * The job that runs a draft with the limits and variables of its function. Draft and job are written together.
 * @throws {ServiceError} `project_not_ready`
 */
export const draftRun = async (
  db: Queryable,
  project: Project,
  draft: Draft,
  { payload, requestId, caps }: DraftRun,
): Promise<JobRequest> => {
  requireActive(project);
  const version = await nextNumber(db);
  const { functionId } = draft;
  return {
    ...requestFor(project, { functionId, version, payload, trigger: 'dashboard', requestId, caps }),
    alongside: (tx) => insertDraft(tx, project.id, version, draft),
    undo: async (tx) => {
      await tx.query('delete from function_drafts where function_id = $1 and version = $2', [functionId, version]);
    },
  };
};
