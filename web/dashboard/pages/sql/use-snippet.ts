import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { ApiError, call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import type { SqlTab, SqlTabs } from '../../client/sql-tabs.ts';

export type SaveState = 'local' | 'saved' | 'changed' | 'conflict' | 'failed';

/** A private snippet is saved when nothing was typed for so long. */
const pauseMs = 1500;

const isConflict = (error: unknown): boolean => error instanceof ApiError && error.code === 'conflict';

const stateOf = ({ snippet, text }: SqlTab, error: unknown): SaveState => {
  if (isConflict(error)) return 'conflict';
  if (error !== null) return 'failed';
  if (snippet === null) return 'local';
  return snippet.saved === text ? 'saved' : 'changed';
};

/**
 * Keeps a tab on the server. Each save names the version that it is based on: what somebody else has saved since is never
 * overwritten. Private snippets are saved by themselves, shared ones when somebody says so.
 */
export const useSnippet = (tab: SqlTab, { change }: SqlTabs) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const [error, setError] = useState<unknown>(null);
  const { snippet } = tab;
  const isChanged = snippet !== null && snippet.saved !== tab.text;
  const note = (saved: { id: string; version: number; shared: boolean; sql: string; name: string }): void => {
    setError(null);
    const { id, version, shared, sql, name } = saved;
    change(tab, { name, snippet: { id, version, shared, saved: sql } });
    void queries.invalidateQueries({ queryKey: ['snippets', project.id] });
  };
  const attempt = async (work: () => Promise<Parameters<typeof note>[0]>): Promise<void> => {
    try {
      note(await work());
    } catch (thrown) {
      setError(thrown);
    }
  };
  const replace = (): Promise<void> =>
    attempt(() => {
      if (snippet === null) throw new Error('The tab is no snippet yet.');
      const { id, version, shared } = snippet;
      return call('PUT /projects/{project_id}/snippets/{snippet_id}', {
        params: { project_id: project.id, snippet_id: id },
        body: { name: tab.name, sql: tab.text, shared, version },
      });
    });
  const isAutomatic = snippet !== null && !snippet.shared && isChanged && error === null;
  useEffect(() => {
    if (!isAutomatic) return undefined;
    const timer = setTimeout(() => void replace(), pauseMs);
    return () => clearTimeout(timer);
    // Waits anew with each key.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [isAutomatic, tab.text]);
  return {
    state: stateOf(tab, error),
    error: isConflict(error) ? null : error,
    replace,
    /** Keeps the text under a name of its own. */
    create: (name: string, shared: boolean) =>
      attempt(() =>
        call('POST /projects/{project_id}/snippets', {
          params: { project_id: project.id },
          body: { name, sql: tab.text, shared },
        }),
      ),
    /** The text of the server, for a tab of its own. */
    theirs: async () => {
      const found = await call('GET /projects/{project_id}/snippets/{snippet_id}', {
        params: { project_id: project.id, snippet_id: snippet?.id ?? '' },
      });
      return found;
    },
    /** The tab is no snippet any more: its text is kept here only. */
    detach: (): void => {
      setError(null);
      change(tab, { snippet: null, name: `${tab.name} (mine)` });
    },
  };
};
