import { useQuery } from '@tanstack/react-query';
import { type ReactNode, Suspense, lazy } from 'react';
import { Link, Route, Switch, useLocation } from 'wouter';
import { call } from '../client/api.ts';
import { ProjectContext } from '../client/project.ts';
import { Failure } from '../components/failure.tsx';
import { HomePage } from './home.tsx';

const TablesPage = lazy(() => import('./tables.tsx').then((page) => ({ default: page.TablesPage })));
const SqlPage = lazy(() => import('./sql.tsx').then((page) => ({ default: page.SqlPage })));
const FunctionsPage = lazy(() => import('./functions.tsx').then((page) => ({ default: page.FunctionsPage })));
const FunctionPage = lazy(() => import('./function.tsx').then((page) => ({ default: page.FunctionPage })));
const JobsPage = lazy(() => import('./jobs.tsx').then((page) => ({ default: page.JobsPage })));
const LogsPage = lazy(() => import('./logs.tsx').then((page) => ({ default: page.LogsPage })));
const KeysPage = lazy(() => import('./keys.tsx').then((page) => ({ default: page.KeysPage })));

const areas = [
  ['', 'Home'],
  ['/tables', 'Tables'],
  ['/sql', 'SQL'],
  ['/functions', 'Functions'],
  ['/jobs', 'Jobs'],
  ['/logs', 'Logs'],
  ['/keys', 'API keys'],
] as const;

const Navigation = ({ base, name }: { readonly base: string; readonly name: string }) => {
  const [at] = useLocation();
  const isHere = (part: string): boolean => (part === '' ? at === base : at.startsWith(`${base}${part}`));
  return (
    <nav className="areas" aria-label={name}>
      <strong>{name}</strong>
      {areas.map(([part, label]) => (
        <Link key={part} href={`${base}${part}`} aria-current={isHere(part) ? 'page' : undefined}>
          {label}
        </Link>
      ))}
    </nav>
  );
};

const Pages = ({ base }: { readonly base: string }): ReactNode => (
  <Suspense fallback={<p className="loading">Loading…</p>}>
    <Switch>
      <Route path={base}>
        <HomePage />
      </Route>
      <Route path={`${base}/tables/:table?`}>{({ table }) => <TablesPage name={table} />}</Route>
      <Route path={`${base}/sql`}>
        <SqlPage />
      </Route>
      <Route path={`${base}/functions`}>
        <FunctionsPage />
      </Route>
      <Route path={`${base}/functions/:id`}>{({ id }) => <FunctionPage id={id} />}</Route>
      <Route path={`${base}/jobs/:id?`}>{({ id }) => <JobsPage id={id} />}</Route>
      <Route path={`${base}/logs`}>
        <LogsPage />
      </Route>
      <Route path={`${base}/keys`}>
        <KeysPage />
      </Route>
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
