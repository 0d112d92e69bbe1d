import { useMutation } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { ApiError, call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import type { SchemaTable } from '../../client/schema.ts';
import { type Staged, changesOf } from '../../client/staged.ts';
import type { Row } from '../../client/values.ts';
import { readRow } from './use-rows.ts';

/** A row that somebody else has changed since it was seen. */
export interface Conflict {
  readonly key: string;
  /** As it is now; null: it is gone. */
  readonly theirs: Row | null;
}

interface Detail {
  readonly path?: string;
}

/** The keys of the rows that an answer names as `changes.3`. */
const keysIn = (error: ApiError, keys: readonly (string | null)[]): string[] =>
  (Array.isArray(error.details) ? (error.details as readonly Detail[]) : []).flatMap(({ path = '' }) => {
    const key = keys[Number(/^changes\.(\d+)/.exec(path)?.[1] ?? -1)];
    return key === undefined || key === null ? [] : [key];
  });

/** The SQL of what is staged, as the server would run it. */
export const previewChanges = async (projectId: string, table: SchemaTable, staged: Staged): Promise<string> => {
  const answer = await call('POST /projects/{project_id}/db/tables/{table}/changes', {
    params: { project_id: projectId, table: table.name },
    query: { dry_run: 'true' },
    body: { changes: changesOf(staged).changes },
  });
  return answer.sql;
};

const keyValues = ({ updates, deletes }: Staged, key: string): Row => (updates[key] ?? deletes[key])?.key ?? {};

/** An answer of the server has about the size of its request, and one of more than 1 MB cannot be kept for a repetition. */
const maxRepeatable = 250_000;

/** The same changes have the same name: those whose answer was lost are not made a second time. */
const useRequestName = () => {
  const last = useRef<{ readonly staged: Staged; readonly name: string } | null>(null);
  return (staged: Staged): string => {
    if (last.current?.staged !== staged)
      last.current = { staged, name: crypto.getRandomValues(new Uint32Array(4)).join('-') };
    return last.current.name;
  };
};

/** Saves what is staged in one transaction, and learns which rows others have changed meanwhile. */
export const useSave = (table: SchemaTable, onSaved: (staged: Staged) => void) => {
  const { project } = useProject();
  const [conflicts, setConflicts] = useState<readonly Conflict[]>([]);
  const nameOf = useRequestName();
  const save = useMutation({
    mutationFn: async (staged: Staged): Promise<void> => {
      const { changes, keys } = changesOf(staged);
      try {
        await call('POST /projects/{project_id}/db/tables/{table}/changes', {
          params: { project_id: project.id, table: table.name },
          body: { changes },
          headers: JSON.stringify(changes).length > maxRepeatable ? {} : { 'idempotency-key': nameOf(staged) },
        });
        setConflicts([]);
      } catch (error) {
        const refused = error instanceof ApiError && error.code === 'conflict' ? keysIn(error, keys) : [];
        const read = refused.map(async (key) => ({
          key,
          theirs: await readRow(project.id, table.name, keyValues(staged, key)),
        }));
        setConflicts(await Promise.all(read));
        throw error;
      }
    },
    onSuccess: (_answer, staged) => onSaved(staged),
  });
  return { save, conflicts, settle: (key: string) => setConflicts(conflicts.filter((one) => one.key !== key)) };
};
