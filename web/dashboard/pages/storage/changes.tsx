import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useRef, useState } from 'react';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import type { Entry } from './folder-pages.ts';
import { shownName, sizeText } from './paths.ts';

const atOnce = 1000;
const maxNamed = 10;

interface Removal {
  readonly projectId: string;
  readonly bucket: string;
  readonly entries: readonly Entry[];
  readonly signal: AbortSignal;
  readonly onRemoved: (count: number) => void;
}

const removeNames = async ({ projectId, bucket, signal }: Removal, names: readonly string[]): Promise<number> => {
  const params = { project_id: projectId, bucket };
  const path = 'DELETE /projects/{project_id}/storage/v1/object/{bucket}';
  return (await call(path, { params, signal, body: { prefixes: names } })).length;
};

/** A folder is what its files are: they go a thousand at a time, so that it can be stopped. */
const removeFolder = async (removal: Removal, { name }: Entry): Promise<void> => {
  const { projectId, bucket, signal, onRemoved } = removal;
  for (;;) {
    const { objects } = await call('POST /projects/{project_id}/storage/v1/object/list-v2/{bucket}', {
      params: { project_id: projectId, bucket },
      signal,
      body: { prefix: `${name}/`, limit: atOnce },
    });
    if (objects.length === 0) return;
    onRemoved(
      await removeNames(
        removal,
        objects.map(({ key }) => key),
      ),
    );
  }
};

const removeEntries = async (removal: Removal): Promise<void> => {
  const names = removal.entries.filter(({ isFolder }) => !isFolder).map(({ name }) => name);
  for (let from = 0; from < names.length; from += atOnce)
    removal.onRemoved(await removeNames(removal, names.slice(from, from + atOnce)));
  for (const folder of removal.entries.filter(({ isFolder }) => isFolder)) await removeFolder(removal, folder);
};

interface DialogProps {
  readonly bucket: string;
  readonly entries: readonly Entry[];
  /** @param changed whether anything may be different now */
  readonly onClose: (changed: boolean) => void;
}

/** How many files and bytes the chosen lines are; those of folders are counted by the platform. */
const useTotals = (bucket: string, entries: readonly Entry[]) => {
  const { project } = useProject();
  const folders = entries.filter(({ isFolder }) => isFolder);
  return useQuery({
    queryKey: ['files', project.id, bucket, 'removal', entries.map(({ name }) => name)],
    queryFn: async () => {
      const files = entries.filter(({ isFolder }) => !isFolder);
      const sum = { files: files.length, bytes: files.reduce((all, { size }) => all + size, 0), isExact: true };
      for (const { name } of folders) {
        const totals = await call('GET /projects/{project_id}/storage/v1/folder/{bucket}', {
          params: { project_id: project.id, bucket },
          query: { prefix: name },
        });
        sum.files += totals.all_files;
        sum.bytes += totals.all_bytes;
        sum.isExact &&= totals.is_exact;
      }
      return sum;
    },
    gcTime: 0,
  });
};

/** Names what is destroyed, destroys it, and says how far it came. */
export const DeleteDialog = ({ bucket, entries, onClose }: DialogProps) => {
  const { project } = useProject();
  const [removed, setRemoved] = useState(0);
  const stop = useRef(new AbortController());
  const totals = useTotals(bucket, entries);
  const remove = useMutation({
    mutationFn: () =>
      removeEntries({
        projectId: project.id,
        bucket,
        entries,
        signal: stop.current.signal,
        onRemoved: (count) => setRemoved((known) => known + count),
      }),
    onSuccess: () => onClose(true),
  });
  const close = (): void => {
    stop.current.abort();
    onClose(removed > 0);
  };
  return (
    <Dialog
      title={entries.length === 1 ? `Delete ${shownName(entries[0]?.label ?? '')}?` : `Delete ${entries.length} lines?`}
      onClose={close}
    >
      <ul className="names">
        {entries.slice(0, maxNamed).map(({ name, isFolder }) => (
          <li key={name}>
            <bdi>{shownName(name)}</bdi>
            {isFolder && ' and all that is in it'}
          </li>
        ))}
        {entries.length > maxNamed && <li>and {entries.length - maxNamed} more</li>}
      </ul>
      {totals.data && (
        <p>
          {totals.data.isExact ? '' : 'More than '}
          {totals.data.files.toLocaleString('en')} {totals.data.files === 1 ? 'file' : 'files'},{' '}
          {sizeText(totals.data.bytes)}. This cannot be undone.
        </p>
      )}
      {(totals.error ?? remove.error) && <Failure error={totals.error ?? remove.error} />}
      {remove.isPending && totals.data && (
        <p role="status">
          {removed.toLocaleString('en')} deleted{' '}
          <progress aria-label="Deleted" value={removed} max={Math.max(1, totals.data.files)} />
        </p>
      )}
      <p className="row end">
        <button type="button" onClick={close}>
          {remove.isPending ? 'Stop' : 'Cancel'}
        </button>
        <button
          type="button"
          className="danger"
          disabled={totals.data === undefined || remove.isPending}
          onClick={() => remove.mutate()}
        >
          Delete {totals.data?.files === 1 ? 'the file' : `${totals.data?.files.toLocaleString('en') ?? ''} files`}
        </button>
      </p>
    </Dialog>
  );
};

const maxNameLength = 1024;

interface MoveDialogProps {
  readonly bucket: string;
  readonly buckets: readonly string[];
  readonly name: string;
  /** @param to the new place; null: nothing was moved */
  readonly onClose: (to: { readonly bucket: string; readonly name: string } | null) => void;
}

/** Gives a file another name, another folder or another bucket. */
export const MoveDialog = ({ bucket, buckets, name, onClose }: MoveDialogProps) => {
  const { project } = useProject();
  const move = useMutation({
    mutationFn: (to: { bucket: string; name: string }) =>
      call('POST /projects/{project_id}/storage/v1/object/move', {
        params: { project_id: project.id },
        body: { bucketId: bucket, sourceKey: name, destinationBucket: to.bucket, destinationKey: to.name },
      }),
    onSuccess: (_, to) => onClose(to),
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    move.mutate({ bucket: fieldOf(form, 'bucket'), name: fieldOf(form, 'name') });
  };
  return (
    <Dialog title="Move or rename" onClose={() => onClose(null)}>
      <form onSubmit={submit}>
        <label>
          Bucket
          <select name="bucket" defaultValue={bucket}>
            {buckets.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <label>
          Name, with its folders
          <input name="name" required maxLength={maxNameLength} defaultValue={name} dir="auto" />
        </label>
        {move.error && <Failure error={move.error} />}
        <p className="row end">
          <button type="button" onClick={() => onClose(null)}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={move.isPending}>
            Move the file
          </button>
        </p>
      </form>
    </Dialog>
  );
};
