import { useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { call } from '../client/api.ts';

/** The bar on top, and the page below it. */
export const Shell = ({ email, children }: { readonly email: string; readonly children: ReactNode }) => {
  const queries = useQueryClient();
  const signOut = async (): Promise<void> => {
    await call('DELETE /dashboard/session', {});
    queries.clear();
    globalThis.location.assign('/dashboard');
  };
  return (
    <>
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <header className="top">
        <Link href="/" className="brand">
          plinth
        </Link>
        <nav aria-label="Platform">
          <a href="/docs">API</a>
          <span className="muted">{email}</span>
          <button type="button" className="quiet" onClick={() => void signOut()}>
            Sign out
          </button>
        </nav>
      </header>
      {children}
    </>
  );
};
