import { LRUCache } from 'lru-cache';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import { type TextRow, runPipeline } from '#lib/postgres/pipeline.ts';
import type { DataRole, Sql } from '../data-api.ts';
import type { SchemaCache, DataSchema } from './schema.ts';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { DataError } from '../errors.ts';
import { introspectionOf, schemaOf } from './introspect.ts';

export interface SchemaCacheDeps {
  readonly tenantDb: Pick<ProjectDb, 'use'>;
  /** Notifies the other processes that the schema of a project was changed. */
  readonly announce: (projectId: string) => void;
  readonly now?: () => number;
}

/** A change that was made elsewhere is seen within 5 s. */
const freshMs = 4000;
/** Projects that use other schemas than public. */
const maxOthers = 50_000;
/** The lengths of what was read; where all of it was parsed, it takes some four times as much memory. */
const maxBytes = 64 * 1024 * 1024;
/** A schema may have 10,000 tables of 25 columns. A larger one would evict all others. */
const limits = { maxBytes: 16 * 1024 * 1024, timeoutMs: 20_000 };

/** Tables, views and functions of one schema. */
const maxParts = 50_000;

const maxRefused = 1000;

const tooLarge = (): DataError =>
  new DataError(422, 'schema_too_large', 'The schema of this project is too large to be served.', {
    hint: `It may have ${maxParts} tables, views and functions, described in ${limits.maxBytes / 1024 / 1024} MB. Drop what is not needed, or move it to a schema that is not exposed.`,
  });

interface Entry {
  readonly schema: DataSchema;
  /** When the database last said that this is its schema. */
  checkedAt: number;
}

interface SchemaReader {
  readonly projectId: string;
  readonly role: DataRole;
  /** The schema's name. */
  readonly schema: string;
}

const entryName = ({ projectId, schema }: Pick<SchemaReader, 'projectId' | 'schema'>): string =>
  `${projectId} ${schema}`;

const nameOf = (reader: SchemaReader): string =>
  `${reader.role === 'service' ? 'service' : 'api'} ${entryName(reader)}`;

const versionQuery = { text: 'select plinth_api.schema_version()', params: [] };

type Entries = LRUCache<string, Entry>;

/** Asks the database whether what is kept is still so, and reads the schema where it is not. */
const checkWith = (
  tenantDb: SchemaCacheDeps['tenantDb'],
  entries: Entries,
  now: () => number,
): ((reader: SchemaReader) => Promise<DataSchema>) => {
  const fetchRows = ({ projectId, role }: SchemaReader, query: Sql): Promise<readonly TextRow[]> =>
    tenantDb.use(projectId, role === 'service' ? 'service' : 'api', async (client) => {
      const [rows] = await runPipeline(client, [query], limits);
      return rows ?? [];
    });

  /** Schemas that were too large, with the time when that was seen: it takes 16 MB of the database to see it. */
  const refused = new LRUCache<string, number>({ max: maxRefused });

  const refuse = (name: string): never => {
    refused.set(name, now());
    throw tooLarge();
  };

  const readSchema = async (reader: SchemaReader): Promise<DataSchema> => {
    const name = entryName(reader);
    if (now() - (refused.get(name) ?? Number.NEGATIVE_INFINITY) < freshMs) throw tooLarge();
    try {
      const parts = await fetchRows(reader, introspectionOf(reader.schema));
      return parts.length > maxParts ? refuse(name) : schemaOf(parts, reader.schema);
    } catch (error) {
      if (error instanceof AnswerTooLarge) return refuse(name);
      throw error;
    }
  };

  return async (reader) => {
    const name = entryName(reader);
    const present = entries.get(name);
    const began = now();
    if (present) {
      const [[version] = []] = await fetchRows(reader, versionQuery);
      if (version === present.schema.version) {
        present.checkedAt = began;
        return present.schema;
      }
    }
    const schema = await readSchema(reader);
    entries.set(name, { schema, checkedAt: began });
    return schema;
  };
};

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
  /** The version that is known just now; empty when none is. */
  readonly version: (projectId: string) => string;
} => {
  /** By project, the names of the schemas that were asked for beside public: they are few. */
  const others = new LRUCache<string, ReadonlySet<string>>({ max: maxOthers });
  const entries = new LRUCache<string, Entry>({ maxSize: maxBytes, sizeCalculation: ({ schema }) => schema.bytes + 1 });
  const checking = new Map<string, Promise<DataSchema>>();

  const check = checkWith(tenantDb, entries, now);

  /** One at a time for each project and kind of connection. */
  const checked = (reader: SchemaReader): Promise<DataSchema> => {
    const name = nameOf(reader);
    const present = checking.get(name);
    if (present) return present;
    const made = check(reader).finally(() => {
      if (checking.get(name) === made) checking.delete(name);
    });
    checking.set(name, made);
    return made;
  };

  const namesOf = (projectId: string): readonly string[] => ['public', ...(others.get(projectId) ?? [])];

  const expireOne = (projectId: string, schema: string): void => {
    const entry = entries.get(entryName({ projectId, schema }));
    if (entry) entry.checkedAt = Number.NEGATIVE_INFINITY;
    // A read that is under way may have started before the change.
    for (const role of ['service', 'anon'] as const) checking.delete(nameOf({ projectId, role, schema }));
  };

  const expire = (projectId: string): void => {
    for (const schema of namesOf(projectId)) expireOne(projectId, schema);
  };

  const noteOther = (projectId: string, schema: string): void => {
    const known = others.get(projectId);
    if (schema !== 'public' && known?.has(schema) !== true) others.set(projectId, new Set([...(known ?? []), schema]));
  };

  return {
    get: (projectId, role = 'service', schema = 'public') => {
      noteOther(projectId, schema);
      const entry = entries.get(entryName({ projectId, schema }));
      if (entry && now() - entry.checkedAt < freshMs) return Promise.resolve(entry.schema);
      return checked({ projectId, role, schema });
    },
    // All schemas of a database have one version.
    version: (projectId) => {
      const known = namesOf(projectId).map((schema) => entries.get(entryName({ projectId, schema })));
      return known.find((entry) => entry !== undefined)?.schema.version ?? '';
    },
    newer: async (projectId, known, role = 'service') => {
      expire(projectId);
      const schema = await checked({ projectId, role, schema: known.name });
      return schema.version === known.version ? null : schema;
    },
    changed: (projectId) => {
      expire(projectId);
      announce(projectId);
    },
    expire,
  };
};
