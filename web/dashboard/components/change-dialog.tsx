import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, type ReactNode, useState } from 'react';
import { useProject } from '../client/project.ts';
import { type SchemaChange, applyChange, previewOf, saveMigration } from '../client/schema-changes.ts';
import { useSettled } from '../client/settled.ts';
import { Dialog } from './dialog.tsx';
import { Failure } from './failure.tsx';

interface ChangeDialogProps {
  readonly title: string;
  readonly action: string;
  readonly isDangerous?: boolean;
  /** Null while the form is not complete. */
  readonly change: SchemaChange | null;
  /** A name for the migration that it may become. */
  readonly name: string;
  readonly onDone: () => void;
  readonly onClose: () => void;
  /** The fields of the form. */
  readonly children: ReactNode;
}

/** The SQL of a change, as the server would run it; null while there is none. */
const usePreview = (change: SchemaChange | null) => {
  const { project } = useProject();
  const key = useSettled(JSON.stringify(change));
  return useQuery({
    queryKey: ['preview', project.id, key],
    queryFn: ({ signal }) => previewOf(project.id, JSON.parse(key) as SchemaChange, signal),
    enabled: key !== 'null',
    retry: false,
    staleTime: 0,
    gcTime: 0,
    placeholderData: (known) => known,
  });
};

/** A change of the schema: its form, the SQL that it is, and a way to keep that as a migration. */
export const ChangeDialog = ({
  title,
  action,
  change,
  name,
  onDone,
  onClose,
  children,
  ...rest
}: ChangeDialogProps) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const preview = usePreview(change);
  const [isMigration, setMigration] = useState(false);
  const [migration, setName] = useState<string | null>(null);
  const apply = useMutation({
    mutationFn: async () => {
      if (change === null) return;
      if (!isMigration) return applyChange(project.id, change);
      // The SQL of this very form, and not of what it was a moment ago.
      const sql = await previewOf(project.id, change, new AbortController().signal);
      return saveMigration(project.id, migration ?? name, sql);
    },
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['schema', project.id] });
      onDone();
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (!apply.isPending && change !== null) apply.mutate();
  };
  return (
    <Dialog title={title} className="wide" onClose={onClose}>
      <form onSubmit={submit}>
        {children}
        {preview.error && change !== null && apply.error === null && <Failure error={preview.error} />}
        {preview.data !== undefined && change !== null && !preview.error && (
          <pre className="sql" aria-label="SQL of this change" tabIndex={0}>
            {preview.data}
          </pre>
        )}
        <label className="inline">
          <input type="checkbox" checked={isMigration} onChange={({ target }) => setMigration(target.checked)} />
          Save as a migration
        </label>
        {isMigration && (
          <label>
            Name of the migration
            <input
              value={migration ?? name}
              required
              maxLength={150}
              onChange={({ target }) => setName(target.value)}
            />
          </label>
        )}
        {apply.error && <Failure error={apply.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button
            type="submit"
            className={rest.isDangerous === true ? 'danger' : 'primary'}
            disabled={apply.isPending || change === null}
          >
            {action}
          </button>
        </p>
      </form>
    </Dialog>
  );
};
