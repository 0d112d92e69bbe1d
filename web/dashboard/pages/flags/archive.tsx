import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { useProject } from '../../client/project.ts';
import { whenOf } from '../../client/when.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import type { Flag } from './flag-shapes.ts';

interface OfFlag {
  readonly flag: Flag;
}

const useAsk = ({ key, environment }: Flag) => {
  const { project } = useProject();
  return { projectId: project.id, params: { project_id: project.id, key }, query: { environment } };
};

const useReferences = (flag: Flag) => {
  const { projectId, params, query } = useAsk(flag);
  return useQuery({
    queryKey: ['flag', projectId, flag.environment, flag.key, 'references'],
    queryFn: () => call('GET /projects/{project_id}/flags/{key}/references', { params, query }),
    staleTime: 0,
  });
};

const scheduled = (count: number): string =>
  count === 1
    ? 'One scheduled change is to come, and will not be made.'
    : `${count} scheduled changes are to come, and will not be made.`;

/** The flags that need a flag, its scheduled changes, and when somebody asked for it last. */
export const References = ({ flag }: OfFlag) => {
  const { projectId, params, query } = useAsk(flag);
  const references = useReferences(flag);
  const stats = useQuery({
    queryKey: ['flag-stats', projectId, flag.environment, flag.key],
    queryFn: () => call('GET /projects/{project_id}/flags/{key}/stats', { params, query: { ...query, days: 14 } }),
  });
  if (references.error) return <Failure error={references.error} />;
  if (references.data === undefined) return <p>Looking for what refers to it…</p>;
  const { needed_by: users, pending_schedules: pending } = references.data;
  return (
    <ul aria-label="References">
      {users.map((key) => (
        <li key={key}>
          <Link href={`/projects/${projectId}/flags/${key}?environment=${flag.environment}`}>
            <bdi>{key}</bdi>
          </Link>{' '}
          needs it: take it out of the prerequisites there first.
        </li>
      ))}
      {users.length === 0 && <li>No other flag needs it.</li>}
      {pending > 0 && <li>{scheduled(pending)}</li>}
      {stats.data !== undefined && (
        <li>
          {stats.data.last_evaluated_at === null
            ? 'No application has asked for it in 90 days.'
            : `An application asked for it last at ${whenOf(stats.data.last_evaluated_at)}.`}
        </li>
      )}
    </ul>
  );
};

const staleOf = (projectId: string) => [
  ['flag', projectId],
  ['flags', projectId],
  ['flag-history', projectId],
];

/** Asks before a flag goes to the archive, and names what refers to it. */
export const Archive = ({ flag: present, onClose }: OfFlag & { readonly onClose: () => void }) => {
  // The flag as it was when somebody decided: a change of a colleague meanwhile is a conflict.
  const [flag] = useState(present);
  const { projectId, params, query } = useAsk(flag);
  const references = useReferences(flag);
  const archive = useChange(
    () =>
      call('POST /projects/{project_id}/flags/{key}/archive', {
        params,
        query,
        headers: { 'if-match': `"${flag.version}"` },
        body: {},
      }),
    { stale: staleOf(projectId), onDone: onClose },
  );
  const isFree = references.data?.needed_by.length === 0;
  return (
    <Dialog title={`Archive ${flag.key}?`} onClose={onClose}>
      <p>
        In {flag.environment} only. It is kept with its rules and versions, and evaluated for nobody: applications that
        ask for it get their own default.
      </p>
      <References flag={flag} />
      {archive.error && <Failure error={archive.error} />}
      <p className="row end">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        {isFree && (
          <button
            type="button"
            className="primary"
            disabled={archive.isPending}
            onClick={() => archive.mutate(undefined)}
          >
            Archive the flag
          </button>
        )}
      </p>
    </Dialog>
  );
};

/** Takes a flag out of the archive, as it was. */
export const Unarchive = ({ flag }: OfFlag) => {
  const { projectId, params, query } = useAsk(flag);
  const unarchive = useChange(
    () =>
      call('POST /projects/{project_id}/flags/{key}/unarchive', {
        params,
        query,
        headers: { 'if-match': `"${flag.version}"` },
        body: {},
      }),
    { stale: staleOf(projectId) },
  );
  return (
    <>
      <button type="button" disabled={unarchive.isPending} onClick={() => unarchive.mutate(undefined)}>
        Take it out of the archive
      </button>
      {unarchive.error && <Failure error={unarchive.error} />}
    </>
  );
};
