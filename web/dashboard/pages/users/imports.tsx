import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { useProject } from '../../client/project.ts';
import { whenOf } from '../../client/when.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import type { Operations } from '../../client/types.ts';

type Import = Operations['POST /projects/{project_id}/users/import'];

const shownImports = 5;
const pollMs = 3000;

/** The last imports, each with the way to its job. Nothing is shown where there was none. */
export const Imports = () => {
  const { project } = useProject();
  const jobs = useQuery({
    queryKey: ['user-imports', project.id],
    queryFn: () =>
      call('GET /projects/{project_id}/jobs', {
        params: { project_id: project.id },
        query: { type: 'users.import', limit: shownImports },
      }),
    refetchInterval: ({ state }) =>
      state.data?.jobs.some(({ status }) => ['queued', 'running', 'waiting'].includes(status)) === true && pollMs,
  });
  if (jobs.data === undefined || jobs.data.jobs.length === 0) return null;
  return (
    <Table caption="Imports" columns={['Started', 'State', 'Job']}>
      {jobs.data.jobs.map(({ id, status, created_at: at }) => (
        <tr key={id}>
          <td>{whenOf(at)}</td>
          <td>{status}</td>
          <td>
            <Link href={`/projects/${project.id}/jobs/${id}`}>{id}</Link>
          </td>
        </tr>
      ))}
    </Table>
  );
};

/** The users of a file: a list, or an object that has one as `users`. @throws {Error} in words for a person */
const usersOf = (text: string): Import['body']['users'] => {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new Error(`The file is not JSON: ${String(error)}`, { cause: error });
  }
  const users = Array.isArray(json) ? json : (json as { users?: unknown } | null)?.users;
  if (!Array.isArray(users)) throw new Error('The file is neither a list of users nor an object with a list users.');
  return users as Import['body']['users'];
};

/** Reads a file of users and sends it as a job, whose result says what was imported. */
export const ImportUsers = ({ onClose }: { readonly onClose: () => void }) => {
  const { project } = useProject();
  const [users, setUsers] = useState<Import['body']['users'] | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const send = useChange(
    (body: Import['body']) =>
      call('POST /projects/{project_id}/users/import', { params: { project_id: project.id }, body }),
    {
      stale: [
        ['users', project.id],
        ['user-imports', project.id],
      ],
    },
  );
  const read = async (file: File | undefined): Promise<void> => {
    setFault(null);
    setUsers(null);
    if (file === undefined) return;
    try {
      setUsers(usersOf(await file.text()));
    } catch (error) {
      setFault(error);
    }
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (users !== null) send.mutate({ users });
  };
  const result = send.data;
  return (
    <Dialog title="Import users" onClose={onClose}>
      <form onSubmit={submit}>
        <p className="muted">
          A JSON file: a list of users with <code>email</code>, and if there is one <code>password_hash</code> of the
          system that they come from. Who exists already is skipped.
        </p>
        <label>
          File
          <input type="file" accept="application/json,.json" onChange={({ target }) => void read(target.files?.[0])} />
        </label>
        {users !== null && send.data === undefined && <p>{users.length} users are in this file.</p>}
        {(fault ?? send.error) !== null && <Failure error={fault ?? send.error} />}
        {result !== undefined && (
          <p role="status">
            {result.imported} imported, {result.skipped} skipped, {result.failed} failed
            {result.errors.slice(0, 5).map(({ index, code }) => (
              <span key={index}>
                {' '}
                · no. {index + 1}: {code}
              </span>
            ))}
          </p>
        )}
        <p className="row end">
          <button type="button" onClick={onClose}>
            {result === undefined ? 'Cancel' : 'Close'}
          </button>
          {result === undefined && (
            <button type="submit" className="primary" disabled={users === null || send.isPending}>
              {send.isPending ? 'Importing…' : 'Import'}
            </button>
          )}
        </p>
      </form>
    </Dialog>
  );
};
