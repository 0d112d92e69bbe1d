import { useQueries, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import { whenOf } from '../../client/when.ts';
import { Changes, changedFields } from '../../components/changes.tsx';
import { Confirm } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';
import { type Flag, type FlagPatch, editedOf, patchOf } from './flag-shapes.ts';

interface FlagProps {
  readonly flag: Flag;
}

const useAsk = ({ key, environment }: Flag) => {
  const { project } = useProject();
  return { projectId: project.id, params: { project_id: project.id, key }, query: { environment } };
};

interface SchedulesProps extends FlagProps {
  /** Changes that are not saved; null: there are none. */
  readonly change: FlagPatch | null;
  readonly onScheduled: () => void;
}

const patchOfKind = (kind: string, change: FlagPatch | null): FlagPatch =>
  kind === 'draft' && change !== null ? change : { is_enabled: kind === 'on' };

/** Changes that are made at a time. */
export const Schedules = ({ flag, change, onScheduled }: SchedulesProps) => {
  const { projectId, params, query } = useAsk(flag);
  const key = ['flag-schedules', projectId, flag.environment, flag.key];
  const schedules = useQuery({
    queryKey: key,
    queryFn: () => call('GET /projects/{project_id}/flags/{key}/schedule', { params, query: { ...query, limit: 50 } }),
  });
  const add = useChange(
    (given: { readonly at: string; readonly kind: string }) =>
      call('POST /projects/{project_id}/flags/{key}/schedule', {
        params,
        query,
        body: { at: new Date(given.at).toISOString(), patch: patchOfKind(given.kind, change) },
      }).then(() => given.kind),
    { stale: [key], onDone: (kind) => kind === 'draft' && onScheduled() },
  );
  const cancel = useChange(
    (id: string) =>
      call('DELETE /projects/{project_id}/flags/{key}/schedule/{schedule_id}', {
        params: { ...params, schedule_id: id },
        query,
      }),
    { stale: [key] },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    add.mutate({ at: fieldOf(form, 'at'), kind: fieldOf(form, 'kind') });
  };
  const error = schedules.error ?? add.error ?? cancel.error;
  const all = schedules.data?.schedules ?? [];
  return (
    <>
      <h2>Scheduled changes</h2>
      <form className="row" onSubmit={submit}>
        <label className="inline">
          At
          <input name="at" type="datetime-local" required />
        </label>
        <label className="inline">
          Do
          <select name="kind">
            <option value="on">turn on</option>
            <option value="off">turn off</option>
            {change !== null && <option value="draft">make the changes above</option>}
          </select>
        </label>
        <button type="submit" disabled={add.isPending}>
          Schedule
        </button>
      </form>
      {error && <Failure error={error} />}
      {all.length > 0 && (
        <Table caption="Scheduled changes" isCaptionHidden columns={['At', 'Change', 'State', 'Cancel']}>
          {all.map((one) => (
            <tr key={one.id}>
              <td>{whenOf(one.at)}</td>
              <td className="one-line">
                <code>{JSON.stringify(one.patch)}</code>
              </td>
              <td className={one.status === 'failed' ? 'bad' : undefined}>
                {one.status} {one.error}
              </td>
              <td>
                {one.status === 'pending' && (
                  <button type="button" onClick={() => cancel.mutate(one.id)}>
                    Cancel
                  </button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
};

const maxCompared = 10;

const fieldsOf = (one: Flag): unknown => ({ ...patchOf(editedOf(one)), is_enabled: one.is_enabled });

/** How the flag differs in other environments. */
export const OtherEnvironments = ({ flag }: FlagProps) => {
  const { projectId, params } = useAsk(flag);
  const environments = useQuery({
    queryKey: ['environments', projectId],
    queryFn: () => call('GET /projects/{project_id}/environments', { params: { project_id: projectId } }),
  });
  const others = (environments.data?.environments ?? [])
    .map(({ name }) => name)
    .filter((name) => name !== flag.environment)
    .slice(0, maxCompared);
  const found = useQueries({
    queries: others.map((environment) => ({
      queryKey: ['flag', projectId, environment, flag.key],
      queryFn: () => call('GET /projects/{project_id}/flags/{key}', { params, query: { environment } }),
      retry: false,
    })),
  });
  if (others.length === 0) return null;
  return (
    <>
      <h2>Other environments</h2>
      {others.map((environment, place) => {
        const other = found[place]?.data;
        const fields = other === undefined ? [] : changedFields(fieldsOf(other), fieldsOf(flag));
        return (
          <details key={environment}>
            <summary>
              {environment}:{' '}
              {other === undefined ? 'not there' : fields.length === 0 ? 'the same' : `differs in ${fields.join(', ')}`}
            </summary>
            {other !== undefined && (
              <>
                <Changes
                  caption={`The flag in ${environment} and here`}
                  before={fieldsOf(other)}
                  after={fieldsOf(flag)}
                  names={[environment, flag.environment]}
                />
                <Link href={`/projects/${projectId}/flags/${flag.key}?environment=${environment}`}>
                  Open it in {environment}
                </Link>
              </>
            )}
          </details>
        );
      })}
    </>
  );
};

const staleWords = {
  unused: 'Nobody has asked for it in 30 days.',
  always_alike: 'It always answers alike: it may be time to remove it from the code.',
} as const;

/** How often the flag was asked for. */
export const Stats = ({ flag }: FlagProps) => {
  const { projectId, params, query } = useAsk(flag);
  const stats = useQuery({
    queryKey: ['flag-stats', projectId, flag.environment, flag.key],
    queryFn: () => call('GET /projects/{project_id}/flags/{key}/stats', { params, query: { ...query, days: 14 } }),
  });
  if (stats.data === undefined && stats.error) return <Failure error={stats.error} />;
  if (stats.data === undefined) return null;
  const { days, last_evaluated_at: last, stale_reason: stale } = stats.data;
  return (
    <>
      <h2>Evaluations</h2>
      <p>
        Last asked for: {whenOf(last)}. {stale !== null && staleWords[stale]}{' '}
        <span className="muted">Counts are written once a minute.</span>
      </p>
      {days.length > 0 && (
        <Table caption="Evaluations of 14 days" isCaptionHidden columns={['Day', 'Variant', 'Value', 'Times']}>
          {days.map((one) => (
            <tr key={`${one.date} ${one.variant}`}>
              <td>{one.date}</td>
              <td>
                <bdi>{one.variant}</bdi>
              </td>
              <td className="one-line">
                <code>{JSON.stringify(one.value)}</code>
              </td>
              <td>{one.count.toLocaleString()}</td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
};

const pageSize = 10;

/** The history of a flag, with a button to revert each change. */
export const History = ({ flag, mayWrite }: FlagProps & { readonly mayWrite: boolean }) => {
  const { projectId, params, query } = useAsk(flag);
  const [offset, setOffset] = useState(0);
  const [reverting, setReverting] = useState<number | null>(null);
  const history = useQuery({
    queryKey: ['flag-history', projectId, flag.environment, flag.key, offset],
    queryFn: () =>
      call('GET /projects/{project_id}/flags/{key}/history', { params, query: { ...query, limit: pageSize, offset } }),
  });
  const revert = useChange(
    (version: number) => call('POST /projects/{project_id}/flags/{key}/revert', { params, query, body: { version } }),
    {
      stale: [
        ['flag', projectId],
        ['flags', projectId],
        ['flag-history', projectId],
      ],
      onDone: () => setReverting(null),
    },
  );
  return (
    <>
      <h2>History</h2>
      {history.error && <Failure error={history.error} />}
      {history.data?.history.map((one) => (
        <details key={one.version}>
          <summary>
            Version {one.version}, {whenOf(one.changed_at)},{' '}
            <bdi>{(one.changed_by as { email?: string } | null)?.email ?? 'the platform'}</bdi>
            {one.version === flag.version && ' (present)'}
          </summary>
          <Changes caption={`Version ${one.version}`} before={one.before} after={one.after} />
          {mayWrite && one.version !== flag.version && (
            <button type="button" onClick={() => setReverting(one.version)}>
              Make version {one.version} the present one
            </button>
          )}
        </details>
      ))}
      <Pager
        label="versions"
        offset={offset}
        limit={pageSize}
        shown={history.data?.history.length ?? 0}
        total={history.data?.total ?? 0}
        onMove={setOffset}
      />
      {reverting !== null && (
        <Confirm
          title={`Back to version ${reverting}?`}
          action={`Make version ${reverting} the present one`}
          onConfirm={() => revert.mutate(reverting)}
          onClose={() => setReverting(null)}
        >
          <p>It becomes a new version, so that nothing is lost. Applications have it within a second.</p>
          {revert.error && <Failure error={revert.error} />}
        </Confirm>
      )}
    </>
  );
};
