import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Confirm } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';

/** Variables that all functions of the project share. Values are kept sealed, and shown masked. */
export const SharedEnv = () => {
  const { project, role } = useProject();
  const params = { project_id: project.id };
  const [removing, setRemoving] = useState<string | null>(null);
  const env = useQuery({
    queryKey: ['project-env', project.id],
    queryFn: () => call('GET /projects/{project_id}/env', { params }),
  });
  const change = useChange(
    (vars: Readonly<Record<string, string | null>>) =>
      call('PATCH /projects/{project_id}/env', { params, body: { env_vars: { ...vars } } }),
    { stale: [['project-env', project.id]], onDone: () => setRemoving(null) },
  );
  const mayWrite = atLeast(role, 'developer');
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const vars = { [fieldOf(form, 'name')]: fieldOf(form, 'value') };
    change.mutate(vars, { onSuccess: () => form.reset() });
  };
  const entries = Object.entries(env.data?.env_vars ?? {});
  return (
    <>
      <h2>Shared variables</h2>
      <p className="muted">All functions see them, from the next call on. A function’s own variable goes first.</p>
      {mayWrite && (
        <form className="row" onSubmit={submit}>
          <label className="inline">
            Name
            <input name="name" required pattern="[A-Za-z_][A-Za-z0-9_]*" maxLength={128} autoComplete="off" />
          </label>
          <label className="inline">
            Value
            <input name="value" type="password" required autoComplete="off" />
          </label>
          <button type="submit" disabled={change.isPending}>
            Set the variable
          </button>
        </form>
      )}
      {(env.error ?? change.error) && <Failure error={env.error ?? change.error} />}
      {env.data !== undefined && entries.length === 0 && <p className="empty">There are no shared variables.</p>}
      {entries.length > 0 && (
        <Table caption="Shared variables" isCaptionHidden columns={['Name', 'Value', ...(mayWrite ? ['Delete'] : [])]}>
          {entries.map(([name, value]) => (
            <tr key={name}>
              <td>
                <code>{name}</code>
              </td>
              <td>
                <code>{value}</code>
              </td>
              {mayWrite && (
                <td>
                  <button type="button" aria-label={`Delete ${name}`} onClick={() => setRemoving(name)}>
                    Delete
                  </button>
                </td>
              )}
            </tr>
          ))}
        </Table>
      )}
      {removing !== null && (
        <Confirm
          title={`Delete ${removing}?`}
          action="Delete the variable"
          onConfirm={() => change.mutate({ [removing]: null })}
          onClose={() => setRemoving(null)}
        >
          <p>Functions that read it get nothing from the next call on. Its value cannot be read back.</p>
          {change.error && <Failure error={change.error} />}
        </Confirm>
      )}
    </>
  );
};
