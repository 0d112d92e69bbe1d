import { useQuery } from '@tanstack/react-query';
import { type ReactNode, Suspense } from 'react';
import { Route, Switch, useLocation } from 'wouter';
import { ApiError, call } from '../client/api.ts';
import { useLive } from '../client/live.ts';
import { ProjectContext } from '../client/project.ts';
import { Boundary } from '../components/boundary.tsx';
import { Failure } from '../components/failure.tsx';
import { Navigation } from '../components/navigation.tsx';
import { groups } from './areas.tsx';

const ProjectNavigation = ({ base, name }: { readonly base: string; readonly name: string }) => {
  const [here] = useLocation();
  const isHere = (at: string): boolean => (at === '' ? here === base : `${here}/`.startsWith(`${base}${at}/`));
  return (
    <Navigation
      name={name}
      groups={groups.map(({ label: group, areas }) => ({
        label: group,
        links: areas.map(({ at, label, icon }) => ({ href: `${base}${at}`, label, icon, isCurrent: isHere(at) })),
      }))}
    />
  );
};

const routes = groups
  .flatMap(({ areas }) => areas)
  .flatMap(({ at, params = '', page, below = {} }) => [...Object.entries(below), [`${at}${params}`, page] as const]);

const Pages = ({ base }: { readonly base: string }): ReactNode => (
  <Boundary resetBy={useLocation()[0]}>
    <Suspense fallback={<p className="loading">Loading…</p>}>
      <Switch>
        {routes.map(([at, Page]) => (
          <Route key={at} path={`${base}${at}`}>
            {(params) => <Page {...params} />}
          </Route>
        ))}
        <Route>
          <p className="empty">There is no such page.</p>
        </Route>
      </Switch>
    </Suspense>
  </Boundary>
);

/** The project is gone, or the person is no longer a member of it. Any other error leaves what is shown as it is. */
const isRefusal = (error: unknown): boolean => error instanceof ApiError && error.status >= 400 && error.status < 500;

/** Everything about one project. */
export const ProjectPages = ({ id }: { readonly id: string }) => {
  useLive(id);
  const project = useQuery({
    queryKey: ['project', id],
    queryFn: () => call('GET /projects/{project_id}', { params: { project_id: id } }),
  });
  const orgs = useQuery({ queryKey: ['orgs'], queryFn: () => call('GET /team/orgs', {}) });
  const error = project.error ?? orgs.error;
  const isShown = project.data !== undefined && orgs.data !== undefined && !isRefusal(error);
  if (error && !isShown)
    return <Failure error={error} onRetry={() => void Promise.all([project.refetch(), orgs.refetch()])} />;
  if (project.data === undefined || orgs.data === undefined) return <p className="loading">Loading…</p>;
  const role = orgs.data.find(({ org_id: org }) => org === project.data.org_id)?.role ?? 'viewer';
  const base = `/projects/${id}`;
  return (
    <ProjectContext value={{ project: project.data, role }}>
      <div className="with-areas">
        <ProjectNavigation base={base} name={project.data.name} />
        <main id="content">
          <Pages base={base} />
        </main>
      </div>
    </ProjectContext>
  );
};
