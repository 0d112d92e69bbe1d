import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useEffect, useState } from 'react';
import { Link } from 'wouter';
import { counted } from '../../client/counted.ts';
import { call, send } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { csvCell } from '../../client/delimited.ts';
import { saveFile } from '../../client/download.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { whenOf } from '../../client/when.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { type ImportedUsers, type UserFile, addressOf, readUserFile, repeatedIn } from './import-file.ts';

type Result = NonNullable<Operations['POST /projects/{project_id}/users/import']['answer']>;
type Fault = Result['errors'][number];

const shownImports = 5;
const pollMs = 1000;

const isUnderWay = (status: string): boolean => ['queued', 'running', 'waiting'].includes(status);

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
    refetchInterval: ({ state }) => state.data?.jobs.some(({ status }) => isUnderWay(status)) === true && 3 * pollMs,
  });
  if (jobs.data === undefined || jobs.data.jobs.length === 0) return null;
  return (
    <Table caption="Imports" columns={['Started', 'State', 'Done', 'Job']}>
      {jobs.data.jobs.map(({ id, status, progress, created_at: at }) => (
        <tr key={id}>
          <td>{whenOf(at)}</td>
          <td>{status}</td>
          <td>{isUnderWay(status) ? `${progress ?? 0} %` : '–'}</td>
          <td>
            <Link href={`/projects/${project.id}/jobs/${id}`}>{id}</Link>
          </td>
        </tr>
      ))}
    </Table>
  );
};

const previewed = 5;

const hashKind = (hash: string | undefined): string => (hash === undefined ? 'none' : hash.slice(0, 8));

const metadataOf = ({ user_metadata: own, app_metadata: apps }: ImportedUsers[number]): string =>
  [own, apps]
    .filter((part) => part !== undefined)
    .map((part) => JSON.stringify(part))
    .join(' ');

const Preview = ({ users }: { readonly users: ImportedUsers }) => {
  const repeated = repeatedIn(users);
  const hashes = users.filter(({ password_hash: hash }) => hash !== undefined).length;
  return (
    <>
      <p role="status">
        The file has {counted(users.length, 'user')}, {hashes.toLocaleString('en')} with a password.
        {repeated > 0 && ` ${repeated.toLocaleString()} repeat the address of another: the first of each counts.`}
      </p>
      <Table caption="The first users of the file" columns={['Address', 'Confirmed', 'Password', 'Metadata']}>
        {users.slice(0, previewed).map((user, place) => (
          // oxlint-disable-next-line react/no-array-index-key -- the file does not change
          <tr key={place}>
            <td>
              <bdi>{addressOf(user) || '–'}</bdi>
            </td>
            <td>{user.email_verified === true ? 'yes' : 'no'}</td>
            <td>
              <code>{hashKind(user.password_hash)}</code>
            </td>
            <td className="one-line">
              <code>{metadataOf(user)}</code>
            </td>
          </tr>
        ))}
      </Table>
    </>
  );
};

const reasons: Readonly<Record<string, string>> = {
  email_address_invalid: 'the address is not one',
  validation_failed: 'a field is missing, unknown, or not of its form',
  hash_not_supported: 'the password hash is of no known form, or too costly',
  payload_too_large: 'more than 32 KB',
};

const reasonOf = ({ code }: Fault): string => reasons[code] ?? code;

interface FaultsProps {
  readonly file: UserFile;
  readonly result: Result;
}

const shownFaults = 50;

const Faults = ({ file, result }: FaultsProps) => {
  const rows = result.errors.map((fault) => ({
    index: fault.index,
    place: file.placeOf(fault.index),
    email: addressOf(file.users[fault.index]),
    reason: reasonOf(fault),
  }));
  const download = (): void =>
    saveFile(
      'users-not-imported.csv',
      [
        'place,email,reason\r\n',
        ...rows.map(({ place, email, reason }) => `${[place, email, reason].map(csvCell).join(',')}\r\n`),
      ],
      'text/csv',
    );
  return (
    <>
      <Table caption="Not imported" columns={['Where', 'Address', 'Why']}>
        {rows.slice(0, shownFaults).map(({ index, place, email, reason }) => (
          <tr key={index}>
            <td>{place}</td>
            <td>
              <bdi>{email || '–'}</bdi>
            </td>
            <td>{reason}</td>
          </tr>
        ))}
      </Table>
      <p className="row">
        <button type="button" onClick={download}>
          Download them
        </button>
        {rows.length > shownFaults && <span className="muted">The first {shownFaults} are shown.</span>}
        {result.failed > rows.length && (
          <span className="muted">{(result.failed - rows.length).toLocaleString()} more are not listed.</span>
        )}
      </p>
    </>
  );
};

/** The job of an import, followed to its end. */
const useImportJob = (id: string | undefined) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const job = useQuery({
    queryKey: ['user-import', project.id, id],
    queryFn: () =>
      call('GET /projects/{project_id}/jobs/{job_id}', { params: { project_id: project.id, job_id: id ?? '' } }),
    enabled: id !== undefined,
    refetchInterval: ({ state }) => (state.data === undefined || isUnderWay(state.data.status)) && pollMs,
  });
  const isOver = job.data !== undefined && !isUnderWay(job.data.status);
  useEffect(() => {
    if (!isOver) return;
    for (const stale of ['users', 'user-imports']) void queries.invalidateQueries({ queryKey: [stale, project.id] });
  }, [isOver, queries, project.id]);
  return { job, isOver };
};

const Running = ({ id, file }: { readonly id: string; readonly file: UserFile }) => {
  const { project } = useProject();
  const { job, isOver } = useImportJob(id);
  if (job.error) return <Failure error={job.error} onRetry={() => void job.refetch()} />;
  const result = job.data?.status === 'succeeded' ? (job.data.result as Result) : null;
  return (
    <>
      <label>
        {isOver ? 'The import has ended.' : 'The import goes on when this dialog is closed.'}
        <progress max={100} value={isOver ? 100 : (job.data?.progress ?? 0)} />
      </label>
      <p role="status">
        {result !== null && `${result.imported} imported, ${result.skipped} skipped, ${result.failed} failed`}
        {isOver && result === null && `It has ended: ${job.data?.error?.message ?? job.data?.status}`}
      </p>
      {result !== null && result.errors.length > 0 && <Faults file={file} result={result} />}
      <p>
        <Link href={`/projects/${project.id}/jobs/${id}`}>The job of the import</Link>
      </p>
    </>
  );
};

const FileHelp = () => (
  <p className="muted">
    A JSON file with a list of users, or a table with a first line of names, such as{' '}
    <code>email,email_verified,password_hash,name</code>. The hash is the one of the system that they come from; columns
    without a meaning of their own become user metadata. Who exists already is skipped.
  </p>
);

/** Reads a file of users, shows what is in it, sends it as a job, and follows that. */
export const ImportUsers = ({ onClose }: { readonly onClose: () => void }) => {
  const { project } = useProject();
  const [file, setFile] = useState<UserFile | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const begin = useChange(
    async (users: ImportedUsers) => {
      const headers = { 'content-type': 'application/json', prefer: 'respond-async' };
      const body = JSON.stringify({ users });
      const answer = await send(`/projects/${project.id}/users/import`, { method: 'POST', headers, body });
      return (answer.body as { readonly job_id: string }).job_id;
    },
    { stale: [['user-imports', project.id]] },
  );
  const read = async (given: File | undefined): Promise<void> => {
    setFault(null);
    setFile(null);
    if (given === undefined) return;
    try {
      setFile(readUserFile(await given.text()));
    } catch (error) {
      setFault(error);
    }
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (file !== null) begin.mutate(file.users);
  };
  const error = fault ?? begin.error;
  return (
    <Dialog title="Import users" onClose={onClose}>
      <form onSubmit={submit}>
        {begin.data === undefined && (
          <>
            <FileHelp />
            <label>
              File
              <input
                type="file"
                accept="application/json,.json,text/csv,.csv,.tsv"
                onChange={({ target }) => void read(target.files?.[0])}
              />
            </label>
            {file !== null && <Preview users={file.users} />}
          </>
        )}
        {error !== null && <Failure error={error} />}
        {begin.data !== undefined && file !== null && <Running id={begin.data} file={file} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            {begin.data === undefined ? 'Cancel' : 'Close'}
          </button>
          {begin.data === undefined && (
            <button type="submit" className="primary" disabled={file === null || begin.isPending}>
              {begin.isPending ? 'Sending…' : 'Import'}
            </button>
          )}
        </p>
      </form>
    </Dialog>
  );
};
