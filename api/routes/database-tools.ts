import { z } from 'zod';
import { noteChange } from '#domain/database/database.ts';
import { runScript } from '#domain/database/script/script.ts';
import { checksumOf, listApplied, pushMigrations } from '#domain/database/migrations.ts';
import { schemaOfMigrations } from '#domain/database/shadow.ts';
import { dumpSchema } from '#domain/database/schema-sql/schema-sql.ts';
import { typesOfProject } from '#domain/database/types.ts';
import { inProject } from '../access.ts';
import { remembered } from './database/history.ts';
import { type Endpoint, RawReply, endpoint } from '../endpoint.ts';
import { id, instant, namedObject, page, text } from '../fields.ts';
import { onceOf } from '../idempotency.ts';

const area = 'database';
const projectPath = z.object({ project_id: id });

const maxSteps = 1000;
const stepName = text(200, 1).regex(/^\S(?:.*\S)?$/, { error: 'must be one line without space around it' });
const maxSqlLength = 6 * 1024 * 1024;

const step = z
  .strictObject({
    version: stepName.optional().describe('Stands before the name, with _ between.'),
    name: stepName.optional(),
    sql: text(maxSqlLength),
    checksum: z
      .string()
      .regex(/^[0-9a-fA-F]{64}$/, { error: 'must be a SHA-256 in 64 hexadecimal digits' })
      .optional()
      .describe('Checked against the SQL.'),
  })
  .refine(({ version, name }) => version !== undefined || name !== undefined, {
    path: ['name'],
    error: 'is needed, or a version',
  })
  .refine(({ sql, checksum }) => checksum === undefined || checksum.toLowerCase() === checksumOf(sql), {
    path: ['checksum'],
    error: 'is not the SHA-256 of the SQL',
  })
  .transform(({ version, name, sql }) => ({
    name: [version, name].filter((part) => part !== undefined).join('_'),
    sql,
  }));

const refuseRepeated = (steps: readonly { readonly name: string }[], context: z.core.$RefinementCtx): void => {
  const seen = new Set<string>();
  for (const [index, { name }] of steps.entries()) {
    if (seen.has(name)) context.addIssue({ code: 'custom', path: [index, 'name'], message: 'is there twice' });
    seen.add(name);
  }
};

const migrationEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/db/migrations',
    area,
    summary: 'Apply SQL steps in their order, each once and in a transaction of its own',
    access: inProject('developer'),
    params: projectPath,
    body: z.strictObject({
      migrations: z.array(step).max(maxSteps).superRefine(refuseRepeated),
      dry_run: z.boolean().default(false).describe('Run all in one transaction and keep nothing.'),
    }),
    bodyLimit: 'function',
    transaction: 'none',
    response: z.object({ applied: z.array(z.string()), skipped: z.array(z.string()), dry_run: z.boolean() }),
    handle: async ({ body, key }, { deps, project, setHeader }) => {
      const { tenantDb } = deps.projects;
      const options = { tenantDb, projectId: project.id, dryRun: body.dry_run };
      try {
        // In this process they run one after the other, so that waiting ones do not each hold one of the few
        // connections; between processes the database makes them wait.
        const { applied, skipped } = await deps.serialize(`migrations ${project.id}`, () =>
          pushMigrations({ ...options, once: onceOf(key, setHeader) }, body.migrations),
        );
        return { applied: [...applied], skipped: [...skipped], dry_run: body.dry_run };
      } finally {
        // A migration that failed may have changed something, too: the steps before it.
        if (!body.dry_run) deps.schemas.changed(project.id);
      }
    },
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/db/migrations',
    area,
    summary: 'The SQL steps that were applied, in their order',
    access: inProject('viewer'),
    params: projectPath,
    query: page,
    response: z.object({
      migrations: z.array(
        z.object({ name: z.string(), checksum: z.string(), applied_at: instant, duration_ms: z.int() }),
      ),
      total: z.int(),
    }),
    handle: ({ query }, { deps, project }) =>
      deps.projects.tenantDb.use(project.id, 'reader', (client) => listApplied(client, query)),
  }),
];

const shadowEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/db/shadow',
    area,
    summary: 'The schema that migrations make in a throw-away database, as SQL; nothing is kept',
    access: inProject('developer'),
    params: projectPath,
    body: z.strictObject({ migrations: z.array(step).max(maxSteps).superRefine(refuseRepeated) }),
    bodyLimit: 'function',
    transaction: 'none',
    mediaType: 'application/sql',
    response: z.string(),
    handle: async ({ body }, { deps, project }) => {
      const sql = await schemaOfMigrations(deps.projects, { projectId: project.id, steps: body.migrations });
      return new RawReply(sql, 'application/sql; charset=utf-8');
    },
  }),
];

const maxScriptLength = 50 * 1024 * 1024;

const scriptResult = namedObject('ScriptResult', {
  command: z.string().nullable(),
  row_count: z.int().describe('What came back, or what was changed.'),
  fields: z.array(z.object({ name: z.string(), type: z.string() })),
  rows: z.array(z.record(z.string(), z.unknown())),
  truncated: z.boolean().describe('More than 1,000 rows, or 16 MB of all statements with their columns.'),
});

const scriptEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/db/script',
    area,
    summary: 'Run several SQL statements in one transaction; COPY … FROM stdin may bring its rows',
    access: inProject('developer'),
    params: projectPath,
    body: z.strictObject({
      sql: text(maxScriptLength, 1),
      dry_run: z.boolean().default(false).describe('Run all of it and keep nothing.'),
      remember: z.boolean().default(false).describe('Adds it to your history of this project.'),
    }),
    bodyLimit: 'import',
    transaction: 'none',
    response: z.object({ statements: z.array(scriptResult), dry_run: z.boolean() }),
    handle: async ({ body: { sql, dry_run: dryRun, remember } }, call) => {
      const { deps, project, signal } = call;
      const run = (): Promise<string> =>
        runScript(deps.projects.tenantDb, { projectId: project.id, sql, dryRun }, signal);
      try {
        return new RawReply(remember ? await remembered(call, sql, run) : await run());
      } finally {
        if (!dryRun) noteChange(deps, project.id, { schema: true, rows: true });
      }
    },
  }),
];

const textEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/db/schema.sql',
    area,
    summary: 'The schema as SQL that makes it anew in an empty project',
    access: inProject('viewer'),
    params: projectPath,
    mediaType: 'application/sql',
    response: z.string(),
    handle: async (_input, { deps, project }) => {
      const sql = await dumpSchema(deps.projects.tenantDb, project.id);
      return new RawReply(sql, 'application/sql; charset=utf-8');
    },
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/db/types',
    area,
    summary: 'Types of the tables, views, functions and enumerations, for supabase-js',
    access: inProject('viewer'),
    params: projectPath,
    body: z.strictObject({ language: z.enum(['typescript']).default('typescript') }),
    transaction: 'none',
    mediaType: 'text/plain',
    response: z.string(),
    handle: async (_input, { deps, project }) =>
      new RawReply(await typesOfProject(deps.projects.tenantDb, project.id), 'text/plain; charset=utf-8'),
  }),
];

/** Operations on a project's schema as a whole: dump, migrations, scripts, types. */
export const databaseToolEndpoints: readonly Endpoint[] = [
  ...migrationEndpoints,
  ...shadowEndpoints,
  ...scriptEndpoints,
  ...textEndpoints,
];
