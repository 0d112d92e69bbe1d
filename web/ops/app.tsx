import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { Router } from 'wouter';
import { navigate } from 'wouter/use-browser-location';
import { isSignedOut, useSignedOut } from '../dashboard/client/signed-out.ts';
import { Failure } from '../dashboard/components/failure.tsx';
import { useSession } from './client/session.ts';
import { Announcer } from './components/announcer.tsx';
import { SignInPage } from './pages/sign-in.tsx';
import { Views } from './views.tsx';

/** Links of earlier versions have the view behind the `#`: `/ops#/jobs?status=dead`. */
const followOldLink = (): void => {
  const { hash } = globalThis.location;
  if (hash.startsWith('#/')) navigate(`/ops${hash.slice(1)}`, { replace: true });
};

const useOldLinks = (): void => {
  useEffect(() => {
    followOldLink();
    globalThis.addEventListener('hashchange', followOldLink);
    return () => globalThis.removeEventListener('hashchange', followOldLink);
  }, []);
};

const Content = () => {
  const queries = useQueryClient();
  const session = useSession();
  useSignedOut('session');
  if (isSignedOut(session.error)) return <SignInPage onSignedIn={() => queries.resetQueries()} />;
  if (session.data !== undefined) return <Views />;
  if (session.error) return <Failure error={session.error} onRetry={() => void session.refetch()} />;
  return <p className="loading">Loading…</p>;
};

/** The views of an operator who is signed in; for anybody else, the form that signs in and leads back here. */
export const App = () => {
  useOldLinks();
  return (
    <Router base="/ops">
      <Content />
      <Announcer />
    </Router>
  );
};
