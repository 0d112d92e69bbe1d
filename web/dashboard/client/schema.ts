import { useQuery } from '@tanstack/react-query';
import { call } from './api.ts';
import { useProject } from './project.ts';
import type { Operations } from './types.ts';

type Schema = Operations['GET /projects/{project_id}/db/schema']['answer'];
export type SchemaTable = Schema['tables'][number];

/** The whole schema of the open project. */
export const useSchema = () => {
  const { project } = useProject();
  return useQuery({
    queryKey: ['schema', project.id],
    queryFn: () => call('GET /projects/{project_id}/db/schema', { params: { project_id: project.id } }),
  });
};
