import { randomBytes } from 'node:crypto';
import { createSchedule } from '#domain/cron/cron.ts';
import { type FenceDb } from '#domain/database/console/fence.ts';
import { pushMigrations } from '#domain/database/migrations.ts';
import { createFunction } from '#domain/functions/functions.ts';
import { type CodeTexts, presentVersion } from '#domain/functions/store.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Example, ExampleFunction } from './example.ts';

/** Tables, policies and rows, in one transaction. A second time nothing is done. */
export const makeTables = async (tenantDb: FenceDb, projectId: string, { name, sql }: Example): Promise<void> => {
  await pushMigrations({ tenantDb, projectId, dryRun: false, once: undefined }, [{ name: `example_${name}`, sql }]);
};

interface Made {
  readonly id: string;
  readonly slug: string;
  /** By the names under which `code` of the example has them; none for a function that was there. */
  readonly secrets: Readonly<Record<string, string>>;
}

const secretsOf = ({ secrets = {} }: ExampleFunction) =>
  Object.entries(secrets).map(([variable, name]) => ({ variable, name, value: randomBytes(24).toString('base64url') }));

/** A function of the example with its schedule, in the transaction of the caller; one that is there stays as it is. */
export const makeFunction = async (
  db: Queryable,
  project: Project,
  fn: ExampleFunction & { readonly texts: CodeTexts },
  author: Parameters<typeof createFunction>[3],
): Promise<Made> => {
  const present = await presentVersion(db, project.id, { slug: fn.name });
  if (present !== undefined) return { id: present.id, slug: fn.name, secrets: {} };
  const secrets = secretsOf(fn);
  const usual = { retry: null, rate: null, debounce_ms: null, batch: null, on_failure_function_id: null };
  const { id, slug } = await createFunction(
    db,
    project.id,
    {
      ...usual,
      name: fn.name,
      language: 'javascript',
      entry_point: 'handler',
      texts: fn.texts,
      timeout_ms: 10_000,
      memory_mb: 256,
      access: fn.access,
      env_vars: Object.fromEntries(secrets.map(({ variable, value }) => [variable, value])),
    },
    author,
  );
  if (fn.schedule !== undefined)
    await createSchedule(db, project, {
      name: fn.name,
      schedule: fn.schedule,
      timezone: 'UTC',
      target: { type: 'function', function_id: id },
      payload: '{}',
      enabled: true,
      overlap: 'skip',
      misfire: 'once',
      timeout_ms: null,
      retry: null,
      jitter_ms: 0,
      deadline_ms: null,
    });
  return { id, slug, secrets: Object.fromEntries(secrets.map(({ name, value }) => [name, value])) };
};
