import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { ApiError } from './client/api.ts';
import { chooseTheme, chosenTheme } from './client/theme.ts';
import { App } from './app.tsx';
import { Boundary } from './components/boundary.tsx';
// oxlint-disable-next-line import/no-unassigned-import -- the bundler takes it from here
import './style.css';

const retries = 2;

/** Requests are retried only when the platform is unreachable or answers 5xx: a refused request would be refused again. */
const shouldRetry = (count: number, error: Error): boolean =>
  count < retries && (!(error instanceof ApiError) || error.status === 0 || error.status >= 500);

const client = new QueryClient({
  defaultOptions: {
    // Offline, requests fail in words at once: otherwise they would wait, and begin unseen when the network is back.
    queries: { retry: shouldRetry, staleTime: 5000, refetchIntervalInBackground: false, networkMode: 'always' },
    mutations: { networkMode: 'always' },
  },
});

chooseTheme(chosenTheme());
const root = document.querySelector('#root');
if (root === null) throw new Error('The page has no root.');
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <Boundary resetBy="">
        <App />
      </Boundary>
    </QueryClientProvider>
  </StrictMode>,
);
