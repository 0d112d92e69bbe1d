import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { useFilters } from '../../client/filters.ts';
import { usePace } from '../../client/live.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { ScheduleFields, scheduleOf, targetText } from './form.tsx';
import { runClass } from './shapes.ts';

const limit = 50;

const NewScheduleDialog = ({ functionId, onClose }: { readonly functionId: string; readonly onClose: () => void }) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const [, go] = useLocation();
  const [fault, setFault] = useState<string | null>(null);
  const make = useMutation({
    mutationFn: (body: ReturnType<typeof scheduleOf>) =>
      call('POST /projects/{project_id}/cron', { params: { project_id: project.id }, body }),
    onSuccess: async ({ id }) => {
      await queries.invalidateQueries({ queryKey: ['schedules', project.id] });
      go(`/projects/${project.id}/cron/${id}`);
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    try {
      setFault(null);
      make.mutate(scheduleOf(event.currentTarget));
    } catch {
      setFault('The payload is not JSON.');
    }
  };
  return (
    <Dialog title="New schedule" onClose={onClose}>
      <form onSubmit={submit}>
        <ScheduleFields functionId={functionId} />
        {fault !== null && (
          <p className="bad" role="alert">
            {fault}
          </p>
        )}
        {make.error && <Failure error={make.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={make.isPending}>
            Create the schedule
          </button>
        </p>
      </form>
    </Dialog>
  );
};

/** The schedules of the project, each with its last outcome and its next time. */
export const SchedulesPage = () => {
  const { project, role } = useProject();
  const params = { project_id: project.id };
  const filters = useFilters();
  const pace = usePace(10_000);
  const schedules = useQuery({
    queryKey: ['schedules', project.id, 'page', filters.offset],
    queryFn: () => call('GET /projects/{project_id}/cron', { params, query: { limit, offset: filters.offset } }),
    placeholderData: (present) => present,
    refetchInterval: pace,
  });
  const functions = useQuery({
    queryKey: ['functions', project.id, 'all'],
    queryFn: () => call('GET /projects/{project_id}/functions', { params, query: { limit: 200 } }),
  });
  const nameOf = (id: string): string => functions.data?.functions.find((fn) => fn.id === id)?.name ?? 'a function';
  const mayChange = atLeast(role, 'developer');
  // A dialog also closes when its page is left, which must not lead back here.
  const closeNew = (): void => {
    if (new URLSearchParams(globalThis.location.search).has('new')) filters.pick({ new: '' });
  };
  return (
    <>
      <div className="row head">
        <h1>Schedules</h1>
        {mayChange && (
          <button type="button" className="primary" onClick={() => filters.pick({ new: 'any' })}>
            New schedule
          </button>
        )}
      </div>
      {schedules.error && <Failure error={schedules.error} onRetry={() => void schedules.refetch()} />}
      {schedules.data?.total === 0 && (
        <p className="empty">No schedule yet. A schedule runs a function, calls an address or runs SQL at set times.</p>
      )}
      {schedules.data !== undefined && schedules.data.total > 0 && (
        <Table
          caption="Schedules"
          isCaptionHidden
          columns={['Name', 'It runs', 'Times', 'Next', 'Last', 'Last outcome']}
        >
          {schedules.data.schedules.map((schedule) => (
            <tr key={schedule.id}>
              <td className="one-line">
                <Link href={`/projects/${project.id}/cron/${schedule.id}`}>{schedule.name}</Link>
              </td>
              <td className="one-line">{targetText(schedule.target, nameOf)}</td>
              <td>
                <code>{schedule.schedule}</code> {schedule.timezone}
              </td>
              <td>
                {schedule.enabled ? <Time at={schedule.next_run_at} /> : <span className="tag warn">paused</span>}
              </td>
              <td>
                <Time at={schedule.last_run?.fire_at ?? null} />
              </td>
              <td className="one-line">
                {schedule.last_run !== null && (
                  <>
                    <span className={`tag ${runClass(schedule.last_run.status)}`}>{schedule.last_run.status}</span>{' '}
                    {schedule.last_run.error?.message ?? schedule.last_run.reason}
                  </>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Pager
        offset={filters.offset}
        limit={limit}
        total={schedules.data?.total ?? 0}
        label="schedules"
        onMove={filters.move}
      />
      {mayChange && filters.get('new') !== '' && (
        <NewScheduleDialog functionId={filters.get('new')} onClose={closeNew} />
      )}
    </>
  );
};
