import type { DataRole } from '#domain/data-api/db.ts';
import type { DataSchema } from './types.ts';

/** Schemas of projects, as fresh as the contract asks: own changes at once, those made elsewhere within 5 s. */
export interface SchemaCache {
  /**
   * @param role whose connections it is asked over, when it has to be: who uses up those of one role does not keep the
   *   others waiting
   * @param schema left out: public
   */
  readonly get: (projectId: string, role?: DataRole, schema?: string) => Promise<DataSchema>;
  /**
   * Handles a request that does not fit `known` (an unknown name, an error about one): asks the database for its
   * version, and reads the schema again when it has changed.
   * @returns null when `known` is as the database is: the request was wrong
   */
  readonly newer: (projectId: string, known: DataSchema, role?: DataRole) => Promise<DataSchema | null>;
  /** Reports that the schema of a project was changed through the platform; the other processes are notified. */
  readonly changed: (projectId: string) => void;
}
