import { LRUCache } from 'lru-cache';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import { runPipeline } from '#lib/postgres/pipeline.ts';
import type { SchemaCache } from './cache-types.ts';
import { introspection, schemaOf } from './introspect.ts';
import type { DataSchema } from './types.ts';

export interface SchemaCacheDeps {
  readonly tenantDb: Pick<ProjectDb, 'use'>;
  /** Tells the other processes that the schema of a project was changed. */
  readonly announce: (projectId: string) => void;
  readonly now?: () => number;
}

/** A change that was made elsewhere is seen within 5 s. */
const freshMs = 4000;
/** One costs some 150 bytes. */
const mostColumns = 600_000;
const limits = { mostBytes: 64 * 1024 * 1024, timeoutMs: 20_000 };

interface Entry {
  readonly schema: DataSchema;
  /** When the database last said that this is its schema. */
  checkedAt: number;
}

const sizeOf = ({ schema }: Entry): number =>
  1 + [...schema.tables.values()].reduce((sum, { columns }) => sum + columns.size + 1, schema.routines.size);

const versionQuery = { text: 'select plinth_api.schema_version()', params: [] };
const schemaQuery = { text: introspection, params: [] };

/**
 * Schemas by project, read as the role that end users' requests come in with. Requests that come at the same time share
 * one reading; what begins to be read before a change is not taken for what comes after it.
 */
export const createSchemaCache = ({
  tenantDb,
  announce,
  now = Date.now,
}: SchemaCacheDeps): SchemaCache & {
  /** The schema of a project may have changed: it is checked before it is used again. */
  readonly expire: (projectId: string) => void;
} => {
  const entries = new LRUCache<string, Entry>({ maxSize: mostColumns, sizeCalculation: sizeOf });
  const checking = new Map<string, Promise<DataSchema>>();

  const ask = (projectId: string, query: typeof versionQuery): Promise<readonly (string | null)[]> =>
    tenantDb.use(projectId, 'api', async (client) => {
      const [rows] = await runPipeline(client, [query], limits);
      return rows?.[0] ?? [];
    });

  const check = async (projectId: string): Promise<DataSchema> => {
    const present = entries.get(projectId);
    const began = now();
    if (present) {
      const [version] = await ask(projectId, versionQuery);
      if (version === present.schema.version) {
        present.checkedAt = began;
        return present.schema;
      }
    }
    const schema = schemaOf(await ask(projectId, schemaQuery));
    entries.set(projectId, { schema, checkedAt: began });
    return schema;
  };

  /** One at a time for each project. */
  const checked = (projectId: string): Promise<DataSchema> => {
    const present = checking.get(projectId);
    if (present) return present;
    const made = check(projectId).finally(() => {
      if (checking.get(projectId) === made) checking.delete(projectId);
    });
    checking.set(projectId, made);
    return made;
  };

  const expire = (projectId: string): void => {
    const entry = entries.get(projectId);
    if (entry) entry.checkedAt = Number.NEGATIVE_INFINITY;
    // What is being read may have begun before the change.
    checking.delete(projectId);
  };

  return {
    get: (projectId) => {
      const entry = entries.get(projectId);
      if (entry && now() - entry.checkedAt < freshMs) return Promise.resolve(entry.schema);
      return checked(projectId);
    },
    newer: async (projectId, known) => {
      expire(projectId);
      const schema = await checked(projectId);
      return schema.version === known.version ? null : schema;
    },
    changed: (projectId) => {
      expire(projectId);
      announce(projectId);
    },
    expire,
  };
};
