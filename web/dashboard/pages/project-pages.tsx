import { useQuery } from '@tanstack/react-query';
import { type ReactNode, Suspense } from 'react';
import { Link, Route, Switch, useLocation } from 'wouter';
import { call } from '../client/api.ts';
import { ProjectContext } from '../client/project.ts';
import { Failure } from '../components/failure.tsx';
import { groups } from './areas.tsx';

const Navigation = ({ base, name }: { readonly base: string; readonly name: string }) => {
  const [here] = useLocation();
  const isHere = (at: string): boolean => (at === '' ? here === base : `${here}/`.startsWith(`${base}${at}/`));
  return (
    <nav className="areas" aria-label={name}>
      <strong>{name}</strong>
      {groups.map(({ label: group, areas }) => (
        <div key={group} className="group" role="group" aria-label={group}>
          {areas.map(({ at, label }) => (
            <Link key={at} href={`${base}${at}`} aria-current={isHere(at) ? 'page' : undefined}>
              {label}
            </Link>
          ))}
        </div>
      ))}
    </nav>
  );
};

const routes = groups
  .flatMap(({ areas }) => areas)
  .flatMap(({ at, params = '', page, below = {} }) => [...Object.entries(below), [`${at}${params}`, page] as const]);

const Pages = ({ base }: { readonly base: string }): ReactNode => (
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
);

/** Everything about one project. */
export const ProjectPages = ({ id }: { readonly id: string }) => {
  const project = useQuery({
    queryKey: ['project', id],
    queryFn: () => call('GET /projects/{project_id}', { params: { project_id: id } }),
  });
  const orgs = useQuery({ queryKey: ['orgs'], queryFn: () => call('GET /team/orgs', {}) });
  const error = project.error ?? orgs.error;
  if (error) return <Failure error={error} onRetry={() => void Promise.all([project.refetch(), orgs.refetch()])} />;
  if (project.data === undefined || orgs.data === undefined) return <p className="loading">Loading…</p>;
  const role = orgs.data.find(({ org_id: org }) => org === project.data.org_id)?.role ?? 'viewer';
  const base = `/projects/${id}`;
  return (
    <ProjectContext value={{ project: project.data, role }}>
      <div className="with-areas">
        <Navigation base={base} name={project.data.name} />
        <main id="content" className="page">
          <Pages base={base} />
        </main>
      </div>
    </ProjectContext>
  );
};
