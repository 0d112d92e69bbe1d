import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useState } from 'react';
import { call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import { lastPart, within } from './paths.ts';

/** One line of a folder: a file, or a folder in it. */
export interface Entry {
  /** The whole name in the bucket; that of a folder has no slash at its end. */
  readonly name: string;
  readonly label: string;
  readonly isFolder: boolean;
  readonly size: number;
  readonly type: string;
  readonly changedAt: string | null;
}

export interface FolderView {
  readonly bucket: string;
  readonly folder: string;
  readonly search: string;
  readonly column: 'name' | 'updated_at';
  readonly order: 'asc' | 'desc';
}

const pageSize = 200;

const textIn = (value: unknown): string => (typeof value === 'string' ? value : '');

/** The lines of a folder, of which only those in sight are asked for. */
export const useFolder = (view: FolderView) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const [visible, setVisible] = useState({ from: 0, to: 0 });
  const { bucket, folder, search, column, order } = view;
  const params = { project_id: project.id, bucket };
  const key = ['files', project.id, bucket, folder, search, column, order] as const;
  const totals = useQuery({
    queryKey: ['files', project.id, bucket, folder, search, 'totals'],
    queryFn: () =>
      call('GET /projects/{project_id}/storage/v1/folder/{bucket}', { params, query: { prefix: folder, search } }),
  });
  const read = async (page: number, signal: AbortSignal): Promise<readonly Entry[]> => {
    const entries = await call('POST /projects/{project_id}/storage/v1/object/list/{bucket}', {
      params,
      signal,
      body: { prefix: folder, search, limit: pageSize, offset: page * pageSize, sortBy: { column, order } },
    });
    return entries.map(({ name, id, updated_at: changedAt, metadata }) => ({
      name: within(folder, name),
      label: lastPart(name),
      isFolder: id === null,
      size: Number(metadata?.['size'] ?? 0),
      type: textIn(metadata?.['mimetype']),
      changedAt,
    }));
  };
  const usePage = (page: number) =>
    useQuery({ queryKey: [...key, page], queryFn: ({ signal }) => read(page, signal), staleTime: 30_000 });
  const first = usePage(0);
  usePage(Math.floor(visible.from / pageSize));
  usePage(Math.floor(Math.max(0, visible.to - 1) / pageSize));
  return {
    error: totals.error ?? first.error,
    totals: totals.data,
    count: totals.data === undefined ? (first.data?.length ?? 0) : totals.data.folders + totals.data.files,
    isPending: first.isPending || totals.isPending,
    entryAt: (row: number): Entry | undefined =>
      queries.getQueryData<readonly Entry[]>([...key, Math.floor(row / pageSize)])?.[row % pageSize],
    onVisible: useCallback((from: number, to: number) => setVisible({ from, to }), []),
    reload: () => void queries.invalidateQueries({ queryKey: ['files', project.id, bucket] }),
  };
};
