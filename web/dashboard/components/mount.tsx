import { QueryClient, QueryClientProvider, onlineManager } from '@tanstack/react-query';
import { type ReactNode, StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { ApiError } from '../client/api.ts';
import { onReachable } from '../client/reach.ts';
import { chooseTheme, chosenTheme } from '../client/theme.ts';
import { Away } from './away.tsx';
import { Boundary } from './boundary.tsx';

const maxRetries = 2;
/** A request without an answer is sent again when the platform answers others; some never get through. */
const maxRetriesUnanswered = 10;
const maxPauseMs = 5000;

/** Requests are retried only when they got no answer or 5xx: a refused request would be refused again. */
const shouldRetry = (count: number, error: Error): boolean => {
  if (!(error instanceof ApiError) || error.status >= 500) return count < maxRetries;
  return error.status === 0 && count < maxRetriesUnanswered;
};

// While the platform is unreachable, what is shown stays, and what is missing is waited for.
onlineManager.setEventListener(onReachable);
const client = new QueryClient({
  defaultOptions: {
    queries: {
      retry: shouldRetry,
      retryDelay: (count) => Math.min(maxPauseMs, 1000 * 2 ** count),
      staleTime: 5000,
      refetchIntervalInBackground: false,
    },
    // A change fails in words at once: otherwise it would wait, and be made unseen when the platform is back.
    mutations: { networkMode: 'always' },
  },
});

/** Shows these pages in the theme that the person chose. */
export const mount = (pages: ReactNode): void => {
  chooseTheme(chosenTheme());
  const root = document.querySelector('#root');
  if (root === null) throw new Error('The page has no root.');
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <Boundary resetBy="">
          {pages}
          <Away />
        </Boundary>
      </QueryClientProvider>
    </StrictMode>,
  );
};
