import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { counted } from '../../client/counted.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Failure } from '../../components/failure.tsx';
import { TypeName } from '../../components/type-name.tsx';
import { Usage } from '../home/usage.tsx';
import { SharedEnv } from './shared-env.tsx';

type Change = Operations['PATCH /projects/{project_id}']['body'];

const timeouts = {
  anon: 'Time-out of a statement for anon, in ms',
  authenticated: 'Time-out for users who are signed in, in ms',
  secret: 'Time-out for secret keys, in ms',
} as const;

const changeOf = (form: HTMLFormElement): Change => ({
  name: fieldOf(form, 'name'),
  exposed_schemas: fieldOf(form, 'schemas')
    .split(',')
    .map((schema) => schema.trim())
    .filter((schema) => schema !== ''),
  statement_timeouts: {
    anon: Number(fieldOf(form, 'anon')),
    authenticated: Number(fieldOf(form, 'authenticated')),
    secret: Number(fieldOf(form, 'secret')),
  },
});

const General = () => {
  const { project, role } = useProject();
  const mayWrite = atLeast(role, 'developer');
  const save = useChange(
    (body: Change) => call('PATCH /projects/{project_id}', { params: { project_id: project.id }, body }),
    { stale: [['project', project.id], ['projects']] },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    save.mutate(changeOf(event.currentTarget));
  };
  return (
    <form className="settings" onSubmit={submit} onChange={() => save.reset()}>
      {!mayWrite && <p className="muted">Developers, admins and owners change these.</p>}
      <fieldset disabled={!mayWrite}>
        <legend className="unseen">General</legend>
        <label>
          Name
          <input name="name" required maxLength={100} defaultValue={project.name} />
        </label>
        <label>
          Schemas that the data API serves beside public, separated by commas
          <input name="schemas" defaultValue={project.exposed_schemas.join(', ')} spellCheck={false} />
        </label>
        {(Object.keys(timeouts) as (keyof typeof timeouts)[]).map((kind) => (
          <label key={kind}>
            {timeouts[kind]}
            <input name={kind} type="number" min={1} required defaultValue={project.statement_timeouts[kind]} />
          </label>
        ))}
        {save.error && <Failure error={save.error} />}
        <p className="row">
          <button type="submit" className="primary" disabled={save.isPending}>
            Save the settings
          </button>
          <span role="status">{save.isSuccess ? 'Saved.' : ''}</span>
        </p>
      </fieldset>
    </form>
  );
};

const plans = ['free', 'pro', 'enterprise'] as const;

const PlanChoice = () => {
  const { project } = useProject();
  const save = useChange(
    (plan: (typeof plans)[number]) =>
      call('PATCH /projects/{project_id}', { params: { project_id: project.id }, body: { plan } }),
    { stale: [['project', project.id], ['projects'], ['usage', project.id]] },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    save.mutate(fieldOf(event.currentTarget, 'plan') as (typeof plans)[number]);
  };
  return (
    <form className="row" onSubmit={submit}>
      <label className="inline">
        Plan
        <select name="plan" defaultValue={project.plan}>
          {plans.map((plan) => (
            <option key={plan}>{plan}</option>
          ))}
        </select>
      </label>
      <button type="submit" disabled={save.isPending}>
        Change the plan
      </button>
      <span role="status">{save.isSuccess ? 'Changed.' : ''}</span>
      {save.error && <Failure error={save.error} />}
    </form>
  );
};

const numbered = (count: number | undefined, thing: string): string =>
  count === undefined ? `all ${thing}s` : counted(count, thing);

/** Names everything that is deleted with the project, with numbers where they are known. */
const useDestroyed = (isOpen: boolean): readonly string[] => {
  const { project } = useProject();
  const params = { project_id: project.id };
  const usage = useQuery({
    queryKey: ['usage', project.id],
    queryFn: () => call('GET /projects/{project_id}/usage', { params }),
    enabled: isOpen,
  });
  const users = useQuery({
    queryKey: ['users', project.id, 'count'],
    queryFn: () => call('GET /projects/{project_id}/users', { params, query: { limit: 1 } }),
    enabled: isOpen,
    retry: false,
  });
  const { data } = usage;
  return [
    `${numbered(data?.tables.used, 'table')} with all rows`,
    `${numbered(users.data?.total, 'user')} of the application`,
    `${numbered(data?.functions.used, 'function')} with jobs, schedules and logs`,
    numbered(data?.flags.used, 'flag'),
    'all files, webhooks, API keys and settings',
  ];
};

const Delete = () => {
  const { project } = useProject();
  const [, go] = useLocation();
  const [isOpen, setOpen] = useState(false);
  const destroyed = useDestroyed(isOpen);
  const remove = useChange(() => call('DELETE /projects/{project_id}', { params: { project_id: project.id } }), {
    stale: [['projects']],
    onDone: () => go('/', { replace: true }),
  });
  return (
    <>
      <p>Everything in it goes, and its keys are refused at once.</p>
      <button type="button" className="danger" onClick={() => setOpen(true)}>
        Delete the project
      </button>
      {isOpen && (
        <TypeName
          title={`Delete ${project.name}?`}
          name={project.name}
          action="Delete the project"
          error={remove.error}
          busy={remove.isPending}
          onConfirm={() => remove.mutate(undefined)}
          onClose={() => setOpen(false)}
        >
          <p>This is destroyed:</p>
          <ul>
            {destroyed.map((one) => (
              <li key={one}>{one}</li>
            ))}
          </ul>
          <p>The database is kept for 7 days, in which an operator can restore it; then it is dropped.</p>
        </TypeName>
      )}
    </>
  );
};

/** Name, limits, shared variables and end of the project. */
export const SettingsPage = () => {
  const { project, role } = useProject();
  return (
    <>
      <h1>Settings</h1>
      <p>
        The project belongs to an organization: <Link href={`/orgs/${project.org_id}`}>its members and roles</Link>.
      </p>
      <Copyable label="Id" text={project.id} />
      <Copyable label="Database" text={project.db_name} />
      <h2>General</h2>
      <General />
      <Usage />
      {role === 'owner' ? <PlanChoice /> : <p className="muted">Owners change the plan.</p>}
      <SharedEnv />
      <h2>End of the project</h2>
      {role === 'owner' ? <Delete /> : <p className="muted">Owners delete the project.</p>}
    </>
  );
};
