import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Suspense, lazy, useEffect } from 'react';
import { Redirect, Route, Router, Switch } from 'wouter';
import { ApiError, call } from './client/api.ts';
import { Failure } from './components/failure.tsx';
import { Shell } from './components/shell.tsx';
import { ProjectPages } from './pages/project-pages.tsx';
import { ProjectsPage } from './pages/projects/projects.tsx';
import { SignInPage } from './pages/sign-in/sign-in.tsx';

const OrgPages = lazy(async () => ({ default: (await import('./pages/orgs/org-pages.tsx')).OrgPages }));
const AccountPage = lazy(async () => ({ default: (await import('./pages/account/account.tsx')).AccountPage }));

const isSignedOut = (error: unknown): boolean => error instanceof ApiError && error.status === 401;

/** The pages of a person who is signed in; for anybody else, the form that signs in and leads back here. */
export const App = () => {
  const queries = useQueryClient();
  const me = useQuery({ queryKey: ['me'], queryFn: () => call('GET /auth/me', {}) });
  useEffect(() => {
    const forget = (): void => {
      // Without this check a signed-out browser would repeat the request in an endless loop.
      if (queries.getQueryData(['me']) !== undefined) void queries.resetQueries({ queryKey: ['me'] });
    };
    // The role may have been lowered while the page was open: what it does not allow any more leaves the page.
    const readRoles = (): void => void queries.invalidateQueries({ queryKey: ['orgs'] });
    globalThis.addEventListener('signed-out', forget);
    globalThis.addEventListener('refused', readRoles);
    return () => {
      globalThis.removeEventListener('signed-out', forget);
      globalThis.removeEventListener('refused', readRoles);
    };
  }, [queries]);

  if (me.isPending) return <p className="loading">Loading…</p>;
  if (isSignedOut(me.error)) return <SignInPage onSignedIn={() => void queries.resetQueries()} />;
  if (me.error) return <Failure error={me.error} onRetry={() => void me.refetch()} />;
  return (
    <Router base="/dashboard">
      <Shell email={me.data.email}>
        <Switch>
          <Route path="/">
            <ProjectsPage />
          </Route>
          <Route path="/account">
            <Suspense fallback={<p className="loading">Loading…</p>}>
              <AccountPage />
            </Suspense>
          </Route>
          <Route path="/orgs/:id/*?">
            {({ id }) => (
              <Suspense fallback={<p className="loading">Loading…</p>}>
                <OrgPages id={id} />
              </Suspense>
            )}
          </Route>
          <Route path="/projects/:id/*?">{({ id }) => <ProjectPages id={id} />}</Route>
          <Route>
            <Redirect to="/" />
          </Route>
        </Switch>
      </Shell>
    </Router>
  );
};
