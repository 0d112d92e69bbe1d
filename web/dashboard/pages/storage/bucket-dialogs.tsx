import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { sizeText } from './paths.ts';

export type Bucket = Operations['GET /projects/{project_id}/storage/v1/bucket']['answer'][number];

interface Settings {
  readonly public: boolean;
  readonly file_size_limit: string | null;
  readonly allowed_mime_types: readonly string[] | null;
}

const settingsOf = (form: HTMLFormElement): Settings => {
  const [size, types] = [fieldOf(form, 'size').trim(), fieldOf(form, 'types')];
  const given = types.split(/[\s,]+/).filter((type) => type !== '');
  return {
    public: fieldOf(form, 'public') === 'on',
    file_size_limit: size === '' ? null : size,
    allowed_mime_types: given.length === 0 ? null : given,
  };
};

const Fields = ({ bucket }: { readonly bucket?: Bucket }) => (
  <>
    <label className="inline">
      <input type="checkbox" name="public" defaultChecked={bucket?.public} />
      Everybody may read its files, without a key
    </label>
    <label>
      Largest file
      <input
        name="size"
        defaultValue={bucket?.file_size_limit ?? ''}
        placeholder="the plan’s limit; or 5MB"
        pattern="\d+ *([kKmMgGtT]?[iI]?[bB])?"
      />
    </label>
    <label>
      Types
      <input
        name="types"
        defaultValue={bucket?.allowed_mime_types?.join(', ')}
        placeholder="all; or image/*, text/csv"
      />
    </label>
  </>
);

/** A new bucket. */
export const NewBucket = ({ onClose }: { readonly onClose: (made: string | null) => void }) => {
  const { project } = useProject();
  const make = useMutation({
    mutationFn: (body: Settings & { name: string }) =>
      call('POST /projects/{project_id}/storage/v1/bucket', { params: { project_id: project.id }, body }),
    onSuccess: ({ name }) => onClose(name),
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    make.mutate({ ...settingsOf(form), name: fieldOf(form, 'name') });
  };
  return (
    <Dialog title="New bucket" onClose={() => onClose(null)}>
      <form onSubmit={submit}>
        <label>
          Name
          <input name="name" required maxLength={100} placeholder="letters, digits and . _ -" />
        </label>
        <Fields />
        {make.error && <Failure error={make.error} />}
        <p className="row end">
          <button type="button" onClick={() => onClose(null)}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={make.isPending}>
            Create the bucket
          </button>
        </p>
      </form>
    </Dialog>
  );
};

interface SettingsProps {
  readonly bucket: Bucket;
  readonly onClose: () => void;
}

/** Empties a bucket, or deletes it with all that is in it; its name is typed, since nothing of it comes back. */
const Destroy = ({ bucket, onClose }: SettingsProps) => {
  const { project } = useProject();
  const params = { project_id: project.id, bucket: bucket.id };
  const [typed, setTyped] = useState('');
  const totals = useQuery({
    queryKey: ['files', project.id, bucket.id, 'all'],
    queryFn: () => call('GET /projects/{project_id}/storage/v1/folder/{bucket}', { params, query: {} }),
    gcTime: 0,
  });
  const files = totals.data?.all_files ?? 0;
  const destroy = useMutation({
    mutationFn: async (what: 'emptied' | 'deleted') => {
      if (files > 0 || what === 'emptied')
        await call('POST /projects/{project_id}/storage/v1/bucket/{bucket}/empty', { params, body: {} });
      if (what === 'deleted') await call('DELETE /projects/{project_id}/storage/v1/bucket/{bucket}', { params });
    },
    onSuccess: onClose,
  });
  const isAllowed = typed === bucket.id && totals.data !== undefined && !destroy.isPending;
  return (
    <>
      <h3>Delete</h3>
      {totals.data && (
        <p>
          The bucket has {files.toLocaleString('en')} {files === 1 ? 'file' : 'files'},{' '}
          {sizeText(totals.data.all_bytes)}. Deleted files cannot be brought back.
        </p>
      )}
      <label>
        Type <code>{bucket.id}</code> to confirm
        <input value={typed} onChange={({ target }) => setTyped(target.value)} autoComplete="off" />
      </label>
      {(totals.error ?? destroy.error) && <Failure error={totals.error ?? destroy.error} />}
      <p className="row end">
        <button
          type="button"
          className="danger"
          disabled={!isAllowed || files === 0}
          onClick={() => destroy.mutate('emptied')}
        >
          Delete all files
        </button>
        <button type="button" className="danger" disabled={!isAllowed} onClick={() => destroy.mutate('deleted')}>
          {destroy.isPending ? 'Deleting…' : 'Delete the bucket'}
        </button>
      </p>
    </>
  );
};

/** The settings of a bucket: public access, limits, and deletion. */
export const BucketSettings = (props: SettingsProps) => {
  const { bucket, onClose } = props;
  const { project } = useProject();
  const save = useMutation({
    mutationFn: (body: Settings) =>
      call('PUT /projects/{project_id}/storage/v1/bucket/{bucket}', {
        params: { project_id: project.id, bucket: bucket.id },
        body,
      }),
    onSuccess: onClose,
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    save.mutate(settingsOf(event.currentTarget));
  };
  return (
    <Dialog title={`Settings of ${bucket.name}`} onClose={onClose}>
      <form onSubmit={submit}>
        <Fields bucket={bucket} />
        {save.error && <Failure error={save.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={save.isPending}>
            Save
          </button>
        </p>
      </form>
      <Destroy {...props} />
    </Dialog>
  );
};
