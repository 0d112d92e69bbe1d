import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Confirm, Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';

interface KeyName {
  readonly id: string;
  readonly name: string;
}

/** The API keys of the project; a key itself is shown once. */
export const KeysPage = () => {
  const { project, role } = useProject();
  const params = { project_id: project.id };
  const queries = useQueryClient();
  const [removing, setRemoving] = useState<KeyName | null>(null);
  const keys = useQuery({
    queryKey: ['keys', project.id],
    queryFn: () => call('GET /projects/{project_id}/api-keys', { params, query: { limit: 200 } }),
  });
  const reload = (): void => void queries.invalidateQueries({ queryKey: ['keys', project.id] });
  const make = useMutation({
    mutationFn: (body: { name: string; kind: 'secret' | 'publishable' }) =>
      call('POST /projects/{project_id}/api-keys', { params, body }),
    onSuccess: reload,
  });
  const remove = useMutation({
    mutationFn: ({ id }: KeyName) =>
      call('DELETE /projects/{project_id}/api-keys/{key_id}', { params: { ...params, key_id: id } }),
    onSuccess: () => {
      setRemoving(null);
      reload();
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    make.mutate({ name: fieldOf(form, 'name'), kind: fieldOf(form, 'kind') === 'secret' ? 'secret' : 'publishable' });
    form.reset();
  };
  const mayChange = atLeast(role, 'admin');
  return (
    <>
      <h1>API keys</h1>
      {mayChange ? (
        <form className="row" onSubmit={submit}>
          <label className="inline">
            Name
            <input name="name" required maxLength={100} />
          </label>
          <label className="inline">
            Kind
            <select name="kind">
              <option value="publishable">publishable</option>
              <option value="secret">secret</option>
            </select>
          </label>
          <button type="submit" className="primary" disabled={make.isPending}>
            Create a key
          </button>
        </form>
      ) : (
        <p className="muted">Keys are made and deleted by admins and owners.</p>
      )}
      {(keys.error ?? make.error) && <Failure error={keys.error ?? make.error} />}
      <Table
        caption="API keys"
        isCaptionHidden
        columns={['Name', 'Kind', 'Key', 'Made', ...(mayChange ? ['Delete'] : [])]}
      >
        {keys.data?.api_keys.map((key) => (
          <tr key={key.id}>
            <td>{key.name}</td>
            <td>{key.kind}</td>
            <td>
              <code>
                {key.prefix}…{key.last_four}
              </code>
            </td>
            <td>{new Date(key.created_at).toLocaleString()}</td>
            {mayChange && (
              <td>
                <button type="button" onClick={() => setRemoving(key)} aria-label={`Delete ${key.name}`}>
                  Delete
                </button>
              </td>
            )}
          </tr>
        ))}
      </Table>
      {make.data?.api_key !== undefined && (
        <Dialog title={`The key ${make.data.name}`} onClose={() => make.reset()}>
          <p>It is shown once.</p>
          <Copyable label="Key" text={make.data.api_key} />
          <p className="row end">
            <button type="button" className="primary" onClick={() => make.reset()}>
              I have saved it
            </button>
          </p>
        </Dialog>
      )}
      {removing !== null && (
        <Confirm
          title={`Delete ${removing.name}?`}
          action="Delete the key"
          onConfirm={() => remove.mutate(removing)}
          onClose={() => setRemoving(null)}
        >
          <p>Whatever uses this key is refused at once. This cannot be undone.</p>
          {remove.error && <Failure error={remove.error} />}
        </Confirm>
      )}
    </>
  );
};
