import { useQuery } from '@tanstack/react-query';
import { type ReactNode, Suspense, useState } from 'react';
import { Link, Route, Switch, useLocation } from 'wouter';
import { call } from '../client/api.ts';
import { useLive } from '../client/live.ts';
import { ProjectContext } from '../client/project.ts';
import { Boundary } from '../components/boundary.tsx';
import { Failure } from '../components/failure.tsx';
import { Icon } from '../components/icon.tsx';
import { groups } from './areas.tsx';

const Navigation = ({ base, name }: { readonly base: string; readonly name: string }) => {
  const [here] = useLocation();
  const [isOpen, setOpen] = useState(false);
  const isHere = (at: string): boolean => (at === '' ? here === base : `${here}/`.startsWith(`${base}${at}/`));
  const current = groups.flatMap(({ areas }) => areas).find(({ at }) => isHere(at));
  return (
    <>
      <button type="button" className="menu-button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name="menu" />
        {current?.label ?? 'Pages'}
      </button>
      <nav className={isOpen ? 'areas is-open' : 'areas'} aria-label={name}>
        {groups.map(({ label: group, areas }) => (
          <div key={group} className="group">
            <h2>{group}</h2>
            {areas.map(({ at, label, icon }) => (
              <Link
                key={at}
                href={`${base}${at}`}
                aria-current={isHere(at) ? 'page' : undefined}
                onClick={() => setOpen(false)}
              >
                <Icon name={icon} />
                {label}
              </Link>
            ))}
          </div>
        ))}
      </nav>
    </>
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

/** Everything about one project. */
export const ProjectPages = ({ id }: { readonly id: string }) => {
  useLive(id);
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
        <main id="content">
          <Pages base={base} />
        </main>
      </div>
    </ProjectContext>
  );
};
