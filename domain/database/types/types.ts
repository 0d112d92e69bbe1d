import { DataError } from '#domain/data-api/errors.ts';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import { readTypedSchema } from './read.ts';
import { writeTypes } from './write.ts';

const timeoutMs = 20_000;

const isTimeout = (error: unknown): boolean => error instanceof Error && Reflect.get(error, 'code') === '57014';

/**
 * TypeScript types of schema `public`, in the form of supabase-js: `createClient<Database>(…)`.
 * @throws {DataError} 57014 after 20 s
 */
export const typesOfProject = (tenantDb: Pick<ProjectDb, 'use'>, projectId: string): Promise<string> =>
  tenantDb.use(projectId, 'reader', async (client) => {
    try {
      return writeTypes(await readTypedSchema(client, timeoutMs));
    } catch (error) {
      throw isTimeout(error) ? new DataError(504, '57014', 'Reading the schema took too long.') : error;
    }
  });
