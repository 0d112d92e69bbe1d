import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { TypeName } from '../../components/type-name.tsx';
import { defaultEnvironment } from './flag-shapes.ts';

const named = '[a-z][a-z0-9_\\-]{0,62}';

/** The environments of the project: made, copied and deleted. */
export const Environments = ({ onClose }: { readonly onClose: () => void }) => {
  const { project } = useProject();
  const params = { project_id: project.id };
  const [deleting, setDeleting] = useState<string | null>(null);
  const stale = [
    ['environments', project.id],
    ['flags', project.id],
  ];
  const environments = useQuery({
    queryKey: ['environments', project.id],
    queryFn: () => call('GET /projects/{project_id}/environments', { params }),
  });
  const make = useChange(
    (name: string) => call('POST /projects/{project_id}/environments', { params, body: { name } }),
    {
      stale,
    },
  );
  const copy = useChange(
    ({ name, to }: { readonly name: string; readonly to: string }) =>
      call('POST /projects/{project_id}/environments/{name}/copy', { params: { ...params, name }, body: { to } }),
    { stale },
  );
  const remove = useChange(
    (name: string) => call('DELETE /projects/{project_id}/environments/{name}', { params: { ...params, name } }),
    { stale, onDone: () => setDeleting(null) },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const [from, to] = [fieldOf(form, 'from'), fieldOf(form, 'to')];
    if (from === '') make.mutate(to);
    else copy.mutate({ name: from, to });
  };
  const all = environments.data?.environments ?? [];
  const error = environments.error ?? make.error ?? copy.error;
  if (deleting !== null) {
    return (
      <TypeName
        title={`Delete ${deleting}?`}
        name={deleting}
        action="Delete the environment"
        error={remove.error}
        busy={remove.isPending}
        onConfirm={() => remove.mutate(deleting)}
        onClose={() => setDeleting(null)}
      >
        <p>All flags of this environment are deleted, with their versions and scheduled changes.</p>
      </TypeName>
    );
  }
  return (
    <Dialog title="Environments" onClose={onClose}>
      <Table caption="Environments" isCaptionHidden columns={['Name', 'Flags', 'Delete']}>
        {all.map(({ name, flags }) => (
          <tr key={name}>
            <td>{name}</td>
            <td>{flags}</td>
            <td>
              {name !== defaultEnvironment && (
                <button type="button" aria-label={`Delete ${name}`} onClick={() => setDeleting(name)}>
                  Delete
                </button>
              )}
            </td>
          </tr>
        ))}
      </Table>
      <form onSubmit={submit}>
        <label>
          Name of the environment
          <input name="to" required pattern={named} placeholder="staging" autoComplete="off" />
        </label>
        <label>
          With the flags of
          <select name="from">
            <option value="">none: it is made empty</option>
            {all.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <p className="muted">Copying makes an environment that is there already equal to the other.</p>
        {error && <Failure error={error} />}
        {copy.data !== undefined && (
          <p role="status">
            {copy.data.created.length} made, {copy.data.updated.length} changed, {copy.data.deleted.length} deleted.
          </p>
        )}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Close
          </button>
          <button type="submit" className="primary" disabled={make.isPending || copy.isPending}>
            Make or copy
          </button>
        </p>
      </form>
    </Dialog>
  );
};

/** The flags in which two environments differ. */
export const Compare = ({ from, to }: { readonly from: string; readonly to: string }) => {
  const { project } = useProject();
  const compared = useQuery({
    queryKey: ['flags', project.id, 'compare', from, to],
    queryFn: () =>
      call('GET /projects/{project_id}/environments/compare', {
        params: { project_id: project.id },
        query: { from, to },
      }),
  });
  if (compared.data === undefined && compared.error) return <Failure error={compared.error} />;
  if (compared.data === undefined) return null;
  const { only_from: onlyFrom, only_to: onlyTo, different } = compared.data;
  const link = (key: string, environment: string) => (
    <Link href={`/projects/${project.id}/flags/${key}?environment=${environment}`}>{key}</Link>
  );
  if (onlyFrom.length + onlyTo.length + different.length === 0)
    return (
      <p role="status">
        {from} and {to} are equal.
      </p>
    );
  return (
    <Table caption={`${from} compared with ${to}`} columns={['Flag', 'Difference']}>
      {different.map(({ key, fields }) => (
        <tr key={key}>
          <td>{link(key, to)}</td>
          <td>differs in {fields.join(', ')}</td>
        </tr>
      ))}
      {onlyFrom.map((key) => (
        <tr key={key}>
          <td>{link(key, from)}</td>
          <td>only in {from}</td>
        </tr>
      ))}
      {onlyTo.map((key) => (
        <tr key={key}>
          <td>{link(key, to)}</td>
          <td>only in {to}</td>
        </tr>
      ))}
    </Table>
  );
};
