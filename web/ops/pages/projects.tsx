import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { oneOf, useFilters } from '../../dashboard/client/filters.ts';
import { fieldOf } from '../../dashboard/client/form.ts';
import { Failure } from '../../dashboard/components/failure.tsx';
import { Table } from '../../dashboard/components/table.tsx';
import { type JobType, type Project, call } from '../client/api.ts';
import { useJobTypes } from '../client/session.ts';
import { announce } from '../client/announce.ts';
import { compactText, numberText } from '../client/words.ts';
import { Ask } from '../components/ask.tsx';
import { LimitField, TypeChoice, limitOf } from '../components/fields.tsx';
import { Heading } from '../components/heading.tsx';
import { DeletedProjects } from './deleted.tsx';
import { PauseAnother } from './pause-another.tsx';
import { Switch, type SwitchProps } from './switch.tsx';

const nameOf = ({ name, ref, project_id: id }: Project): string => name ?? ref ?? id;

const runningText = ({ running, limit, own_limit: own }: Project): string =>
  `${compactText(running)} of ${limit === null ? 'its plan’s' : compactText(limit)}${own === null ? '' : ' (set)'}`;

const State = ({ project }: { readonly project: Project }) => {
  const { paused, project_paused: all, running, waiting, limit } = project;
  if (paused) return <span className="tag warn">{all ? 'project paused' : 'paused'}</span>;
  if (waiting > 0 && limit !== null && running >= limit) return <span className="tag info">at its limit</span>;
  return running + waiting > 0 ? <span className="tag good">flowing</span> : <span className="tag">idle</span>;
};

interface AskProps {
  readonly project: Project;
  readonly refresh: () => Promise<unknown>;
  readonly onClose: () => void;
}

const AskLimits = ({ project, refresh, onClose }: AskProps) => (
  <Ask
    title={`Limits of ${nameOf(project)}`}
    text={`For ${project.type}. Empty: what the plan (${project.plan ?? 'unknown'}) gives.`}
    action="Set limits"
    onClose={onClose}
    work={async (form) => {
      await call('PUT /ops/api/projects/{project_id}/limits', {
        params: { project_id: project.project_id },
        body: {
          type: project.type as JobType,
          running: limitOf(fieldOf(form, 'running')),
          waiting: limitOf(fieldOf(form, 'waiting')),
        },
      });
      announce(`The limits of ${nameOf(project)} are set.`);
      await refresh();
    }}
  >
    <LimitField
      name="running"
      label="Running at a time"
      min={0}
      value={project.own_limit}
      hint={`now ${numberText(project.limit)}`}
    />
    <LimitField
      name="waiting"
      label="Waiting"
      min={0}
      value={project.own_waiting_limit}
      hint={`now ${numberText(project.waiting_limit)}`}
    />
  </Ask>
);

/** A row pauses and resumes its own type; a pause of the whole project can only be ended for all of its types. */
const switchOf = (project: Project): Omit<SwitchProps, 'work' | 'onClose'> & { readonly isWhole: boolean } => {
  const { type, paused, project_paused: isWhole } = project;
  const action = paused ? 'resume' : 'pause';
  if (!isWhole)
    return {
      action,
      what: `${type} of ${nameOf(project)}`,
      counts: project,
      others: 'Its other types and other projects go on.',
      isWhole,
    };
  return {
    action,
    what: `${nameOf(project)} in all its types`,
    counts: project,
    others: `These are its jobs of ${type}. It is paused as a whole, and types that were paused alone run again, too.`,
    isWhole,
  };
};

const AskSwitch = ({ project: present, refresh, onClose }: AskProps) => {
  // The question stays what it was when the row changes under it.
  const [project] = useState(present);
  const { isWhole, ...words } = switchOf(project);
  return (
    <Switch
      {...words}
      onClose={onClose}
      work={async () => {
        await call(`POST /ops/api/projects/{project_id}/${words.action}`, {
          params: { project_id: project.project_id },
          body: isWhole ? {} : { type: project.type as JobType },
        });
        await refresh();
      }}
    />
  );
};

const switchLabel = (project: Project): string => {
  const verb = project.paused ? 'Resume' : 'Pause';
  return `${verb} ${nameOf(project)}${project.project_paused ? '' : ` for ${project.type}`}`;
};

/** One project's jobs of one type. */
const ProjectRow = ({ project, refresh }: Omit<AskProps, 'onClose'>) => {
  const [asking, setAsking] = useState<'limits' | 'switch' | null>(null);
  const asked = { project, refresh, onClose: () => setAsking(null) };
  const query = new URLSearchParams({ project: project.project_id, type: project.type }).toString();
  return (
    <tr>
      <td>
        <Link href={`/jobs?${query}`}>{nameOf(project)}</Link>
        <small className="muted">
          {project.ref ?? project.project_id} · {project.plan ?? 'no plan'}
        </small>
      </td>
      <td>{project.type}</td>
      <td>{runningText(project)}</td>
      <td>{compactText(project.waiting)}</td>
      <td>
        <State project={project} />
      </td>
      <td>
        <div className="row">
          <button type="button" aria-label={switchLabel(project)} onClick={() => setAsking('switch')}>
            {project.paused ? 'Resume' : 'Pause'}
          </button>
          <button
            type="button"
            aria-label={`Limits of ${nameOf(project)} for ${project.type}`}
            onClick={() => setAsking('limits')}
          >
            Limits
          </button>
        </div>
        {asking === 'limits' && <AskLimits {...asked} />}
        {asking === 'switch' && <AskSwitch {...asked} />}
      </td>
    </tr>
  );
};

/** The projects with the most work, and those that were paused or limited. */
export const ProjectsPage = () => {
  const filters = useFilters();
  const type = oneOf(useJobTypes(), filters.get('type'));
  const [isAsking, setAsking] = useState(false);
  const list = useQuery({
    queryKey: ['projects', type],
    queryFn: () => call('GET /ops/api/projects', { query: { ...(type && { type }), limit: 100 } }),
    refetchInterval: 2500,
    placeholderData: (present) => present,
  });
  const projects = list.data?.projects;
  return (
    <>
      <Heading title="Projects" />
      <div className="row filters">
        <TypeChoice key={type} value={type ?? ''} onChange={(next) => filters.set({ type: next })} />
        <button type="button" onClick={() => setAsking(true)}>
          Pause another…
        </button>
      </div>
      {isAsking && <PauseAnother refresh={list.refetch} onClose={() => setAsking(false)} />}
      {list.error && <Failure error={list.error} onRetry={() => void list.refetch()} />}
      {projects?.length === 0 && (
        <p className="empty">No project has jobs waiting or running, and none is paused or limited.</p>
      )}
      {projects !== undefined && projects.length > 0 && (
        <Table
          caption="Projects by jobs waiting and running"
          isCaptionHidden
          columns={['Project', 'Type', 'Running', 'Waiting', 'State', 'Actions']}
        >
          {projects.map((project) => (
            <ProjectRow key={`${project.project_id} ${project.type}`} project={project} refresh={list.refetch} />
          ))}
        </Table>
      )}
      <DeletedProjects />
    </>
  );
};
