import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { counted } from '../../client/counted.ts';
import { call } from '../../client/api.ts';
import { type FileRows, importScript, maxFileBytes, readRows, typeOfValues } from '../../client/import.ts';
import { useProject } from '../../client/project.ts';
import type { SchemaTable } from '../../client/schema.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { TypeNames } from './new-table.tsx';

/** Rows that are shown of a file before it is imported. */
const shownRows = 8;
/** Rows whose values decide about types. */
const maxInspected = 10_000;

interface Draft {
  readonly file: FileRows;
  /** The column of the table for each of the file's; null: it is left out. */
  readonly targets: readonly (string | null)[];
  readonly types: readonly string[];
}

const draftOf = (file: FileRows, table: SchemaTable | null): Draft => ({
  file,
  targets: file.names.map((name) => {
    if (table === null) return name;
    const columns = table.columns.map((column) => column.name);
    return (
      columns.find((one) => one === name) ?? columns.find((one) => one.toLowerCase() === name.toLowerCase()) ?? null
    );
  }),
  types: file.names.map((_, index) => typeOfValues(file.rows.slice(0, maxInspected).map((row) => row[index] ?? null))),
});

interface PreviewProps {
  readonly draft: Draft;
  readonly table: SchemaTable | null;
  readonly onChange: (draft: Draft) => void;
}

const replaced = <T,>(list: readonly T[], index: number, value: T): readonly T[] =>
  list.map((one, at) => (at === index ? value : one));

/** The first rows of a file, and below each of its columns where it goes. */
const Preview = ({ draft, table, onChange }: PreviewProps) => {
  const { file, targets, types } = draft;
  return (
    <Table caption={`The first of ${counted(file.rows.length, 'row')}`} columns={file.names}>
      <tr>
        {file.names.map((name, index) => (
          <td key={name}>
            {table === null ? (
              <input
                aria-label={`Type of ${name}`}
                list="type-names"
                value={types[index] ?? 'text'}
                onChange={({ target }) => onChange({ ...draft, types: replaced(types, index, target.value) })}
              />
            ) : (
              <select
                aria-label={`Column for ${name}`}
                value={targets[index] ?? ''}
                onChange={({ target }) =>
                  onChange({ ...draft, targets: replaced(targets, index, target.value === '' ? null : target.value) })
                }
              >
                <option value="">is left out</option>
                {table.columns.map((column) => (
                  <option key={column.name} value={column.name}>
                    {column.name} ({column.type})
                  </option>
                ))}
              </select>
            )}
          </td>
        ))}
      </tr>
      {file.rows.slice(0, shownRows).map((row, number) => (
        // oxlint-disable-next-line react/no-array-index-key -- rows of a file never change
        <tr key={number}>
          {row.map((value, index) => (
            // oxlint-disable-next-line react/no-array-index-key -- nor do its columns
            <td key={index}>{value === null ? <i className="muted">NULL</i> : value.slice(0, 60)}</td>
          ))}
        </tr>
      ))}
    </Table>
  );
};

const readFile = async (file: File): Promise<FileRows> => {
  if (file.size > maxFileBytes) throw new Error(`The file has more than ${maxFileBytes / 1024 / 1024} MB.`);
  return readRows(file.name, await file.text());
};

/** Puts the rows of a CSV or JSON file into a table, or into a new one: all of them, or none. */
export const ImportDialog = ({ table, onClose }: { table: SchemaTable | null; onClose: (isDone: boolean) => void }) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const [name, setName] = useState(table?.name ?? '');
  const [draft, setDraft] = useState<Draft | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const run = useMutation({
    mutationFn: async (dryRun: boolean) => {
      if (draft === null) return;
      const sql = importScript(name, draft.file, draft.targets, table === null ? draft.types : null);
      await call('POST /projects/{project_id}/db/script', {
        params: { project_id: project.id },
        body: { sql, dry_run: dryRun },
      });
    },
    onSuccess: async (_answer, dryRun) => {
      if (dryRun) return;
      await queries.invalidateQueries({ queryKey: ['schema', project.id] });
      onClose(true);
      if (table === null) navigate(`/projects/${project.id}/tables/${encodeURIComponent(name)}`);
    },
  });
  const choose = async (file: File | undefined): Promise<void> => {
    run.reset();
    if (file === undefined) return;
    try {
      const read = await readFile(file);
      setDraft(draftOf(read, table));
      if (name === '') setName(file.name.replace(/\.[^.]*$/, ''));
      setFault(null);
    } catch (error) {
      setDraft(null);
      setFault(error);
    }
  };
  const isReady = draft !== null && name !== '' && draft.targets.some((target) => target !== null) && !run.isPending;
  return (
    <Dialog
      title={table === null ? 'New table from a file' : `Import into ${table.name}`}
      className="wide"
      onClose={() => onClose(false)}
    >
      <label>
        CSV or JSON
        <input type="file" accept=".csv,.tsv,.txt,.json" onChange={({ target }) => void choose(target.files?.[0])} />
      </label>
      {table === null && (
        <label>
          Name of the table
          <input value={name} maxLength={63} onChange={({ target }) => setName(target.value)} />
        </label>
      )}
      <TypeNames />
      {fault !== null && <Failure error={fault} />}
      {draft !== null && <Preview draft={draft} table={table} onChange={setDraft} />}
      {run.error && <Failure error={run.error} />}
      {run.isSuccess && <p role="status">The database takes all rows. Nothing is kept yet.</p>}
      <p className="row end">
        <button type="button" onClick={() => onClose(false)}>
          Cancel
        </button>
        <button type="button" disabled={!isReady} onClick={() => run.mutate(true)}>
          Check
        </button>
        <button type="button" className="primary" disabled={!isReady} onClick={() => run.mutate(false)}>
          {run.isPending ? 'Working…' : 'Import'}
        </button>
      </p>
    </Dialog>
  );
};
