import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Suspense, useEffect } from 'react';
import { Redirect, Route, Router, Switch } from 'wouter';
import { call } from './client/api.ts';
import { keepFor, onOtherOwner } from './client/kept.ts';
import { keepWindow } from './client/own-window.ts';
import { part } from './client/part.ts';
import { isSignedOut, useSignedOut } from './client/signed-out.ts';
import { Failure } from './components/failure.tsx';
import { Shell } from './components/shell.tsx';
import { ProjectPages } from './pages/project-pages.tsx';
import { ProjectsPage } from './pages/projects/projects.tsx';
import { SignInPage } from './pages/sign-in/sign-in.tsx';

const OrgPages = part(async () => (await import('./pages/orgs/org-pages.tsx')).OrgPages);
const AccountPage = part(async () => (await import('./pages/account/account.tsx')).AccountPage);

/** The person who is signed in. Nothing of another one is left in the browser when this is known. */
const readMe = async () => {
  const me = await call('GET /auth/me', {});
  keepFor(me.id);
  return me;
};

/** The pages of a person who is signed in; for anybody else, the form that signs in and leads back here. */
export const App = () => {
  const queries = useQueryClient();
  const me = useQuery({ queryKey: ['me'], queryFn: readMe });
  useSignedOut('me');
  useEffect(() => {
    // The role may have been lowered while the page was open: what it does not allow any more leaves the page.
    const readRoles = (): void => void queries.invalidateQueries({ queryKey: ['orgs'] });
    globalThis.addEventListener('refused', readRoles);
    return () => globalThis.removeEventListener('refused', readRoles);
  }, [queries]);
  useEffect(() => onOtherOwner(() => globalThis.location.reload()), []);
  useEffect(keepWindow, []);

  if (isSignedOut(me.error)) return <SignInPage onSignedIn={() => void queries.resetQueries()} />;
  if (me.data === undefined && me.error) return <Failure error={me.error} onRetry={() => void me.refetch()} />;
  if (me.data === undefined) return <p className="loading">Loading…</p>;
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
