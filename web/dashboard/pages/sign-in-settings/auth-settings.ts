import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { type VersionedEdit, useVersioned } from '../../client/versioned.ts';

export type Settings = Operations['GET /projects/{project_id}/auth/settings']['answer'];
export type Change = Operations['PATCH /projects/{project_id}/auth/settings']['body'];

/** The settings of sign-in. They are read anew for each page, and never under somebody's hands. */
export const useAuthSettings = (): UseQueryResult<Settings> => {
  const { project } = useProject();
  return useQuery({
    queryKey: ['auth-settings', project.id],
    queryFn: () => call('GET /projects/{project_id}/auth/settings', { params: { project_id: project.id } }),
    gcTime: 0,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
};

/** An edit of the settings that began with these. */
export const useSettingsEdit = (first: Settings, onDone: () => void): VersionedEdit<Settings, Change> => {
  const { project } = useProject();
  const params = { project_id: project.id };
  return useVersioned(first, {
    write: (body: Change, version) =>
      call('PATCH /projects/{project_id}/auth/settings', { params, headers: { 'if-match': `"${version}"` }, body }),
    read: () => call('GET /projects/{project_id}/auth/settings', { params }),
    stale: [['auth-settings', project.id]],
    onDone,
  });
};

/** Settings as people compare them: the version says nothing. */
export const comparable = (settings: Settings): Omit<Settings, 'version'> => {
  const { version: _, ...rest } = settings;
  return rest;
};
