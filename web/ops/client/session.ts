import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import type { JobType } from './api.ts';
import { call } from './api.ts';

/**
 * The types of jobs of this installation. The query of them is also the question whether somebody is signed in: it is
 * the first one, and fails with 401 where nobody is.
 */
export const useSession = (): UseQueryResult<readonly JobType[]> =>
  useQuery({
    queryKey: ['session'],
    queryFn: async () => (await call('GET /ops/api/queues', {})).queues.map(({ type }) => type as JobType),
    staleTime: Infinity,
  });

export const useJobTypes = (): readonly JobType[] => useSession().data ?? [];
