import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { ApiError } from './api.ts';

/** Whether a request failed because nobody is signed in. */
export const isSignedOut = (error: unknown): boolean => error instanceof ApiError && error.status === 401;

/** When a request finds that the session has ended, the query of that name, which says who is signed in, begins anew. */
export const useSignedOut = (name: string): void => {
  const queries = useQueryClient();
  useEffect(() => {
    const forget = (): void => {
      // Without this check a signed-out browser would repeat the request in an endless loop.
      if (queries.getQueryData([name]) !== undefined) void queries.resetQueries({ queryKey: [name] });
    };
    globalThis.addEventListener('signed-out', forget);
    return () => globalThis.removeEventListener('signed-out', forget);
  }, [queries, name]);
};
