import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';

type Import = Operations['PUT /projects/{project_id}/flags/import'];

/** Downloads an environment as a file. */
export const ExportFlags = ({ environment }: { readonly environment: string }) => {
  const { project } = useProject();
  return (
    <a
      className="button"
      href={`/projects/${project.id}/flags/export?environment=${environment}`}
      download={`flags-${environment}.json`}
    >
      Export
    </a>
  );
};

const Keys = ({ label, keys }: { readonly label: string; readonly keys: readonly string[] }) =>
  keys.length === 0 ? null : (
    <p>
      {keys.length} {label}: {keys.slice(0, 20).join(', ')}
      {keys.length > 20 && ', …'}
    </p>
  );

interface ImportProps {
  readonly environment: string;
  readonly onClose: () => void;
}

/** Makes an environment equal to a file, after saying what would change. */
export const ImportFlags = ({ environment, onClose }: ImportProps) => {
  const { project } = useProject();
  const [body, setBody] = useState<Import['body'] | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const put = (given: Import['body'], isDry: boolean): Promise<Import['answer']> =>
    call('PUT /projects/{project_id}/flags/import', {
      params: { project_id: project.id },
      query: { environment, dry_run: isDry ? 'true' : 'false' },
      body: given,
    });
  const preview = useMutation({ mutationFn: (given: Import['body']) => put(given, true) });
  const write = useChange((given: Import['body']) => put(given, false), {
    stale: [
      ['flags', project.id],
      ['flag', project.id],
      ['environments', project.id],
    ],
    onDone: onClose,
  });
  const read = async (file: File | undefined): Promise<void> => {
    setFault(null);
    setBody(null);
    preview.reset();
    if (file === undefined) return;
    try {
      const given = JSON.parse(await file.text()) as Import['body'];
      setBody(given);
      preview.mutate(given);
    } catch (error) {
      setFault(error);
    }
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (body !== null) write.mutate(body);
  };
  const error = fault ?? preview.error ?? write.error;
  const change = preview.data;
  return (
    <Dialog title={`Import into ${environment}`} onClose={onClose}>
      <form onSubmit={submit}>
        <p className="muted">
          A file as the export writes it. {environment} becomes equal to it: flags that are not in the file are deleted.
        </p>
        <label>
          File
          <input type="file" accept="application/json,.json" onChange={({ target }) => void read(target.files?.[0])} />
        </label>
        {error !== null && error !== undefined && <Failure error={error} />}
        {change !== undefined && (
          <div role="status">
            <Keys label="would be made" keys={change.created} />
            <Keys label="would be changed" keys={change.updated} />
            <Keys label="would be deleted" keys={change.deleted} />
            <p>{change.unchanged.length} stay as they are.</p>
          </div>
        )}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={change === undefined || write.isPending}>
            Import
          </button>
        </p>
      </form>
    </Dialog>
  );
};
