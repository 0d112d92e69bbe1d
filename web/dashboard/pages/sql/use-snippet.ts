import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { ApiError, call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import { useWhenReachable } from '../../client/reach.ts';
import type { BoundSnippet, SqlTab, SqlTabs } from '../../client/sql-tabs.ts';

export type SaveState = 'local' | 'saved' | 'changed' | 'conflict' | 'failed';

/** A private snippet is saved when nothing was typed for so long. */
const pauseMs = 1500;

/** A snippet as the server answers it. */
interface Saved {
  readonly id: string;
  readonly version: number;
  readonly shared: boolean;
  readonly sql: string;
  readonly name: string;
}

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
  const note = (saved: Saved): void => {
    setError(null);
    const { id, version, shared, sql, name } = saved;
    change(tab, { name, snippet: { id, version, shared, saved: sql } });
    void queries.invalidateQueries({ queryKey: ['snippets', project.id] });
  };
  const params = { project_id: project.id, snippet_id: snippet?.id ?? '' };
  const theirs = () => call('GET /projects/{project_id}/snippets/{snippet_id}', { params });
  const replaced = async ({ version, shared }: BoundSnippet): Promise<Saved> => {
    const body = { name: tab.name, sql: tab.text, shared, version };
    try {
      return await call('PUT /projects/{project_id}/snippets/{snippet_id}', { params, body });
    } catch (thrown) {
      // It may have been saved by an earlier request whose answer was lost.
      const stored = isConflict(thrown) ? await theirs() : undefined;
      if (stored?.sql !== tab.text) throw thrown;
      return stored;
    }
  };
  const replace = async (): Promise<void> => {
    if (snippet === null) return;
    try {
      note(await replaced(snippet));
    } catch (thrown) {
      setError(thrown);
    }
  };
  const isAutomatic = snippet !== null && !snippet.shared && isChanged && error === null;
  useEffect(() => {
    if (!isAutomatic) return undefined;
    const timer = setTimeout(() => void replace(), pauseMs);
    return () => clearTimeout(timer);
    // Waits anew with each key.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [isAutomatic, tab.text]);
  // A text that could not be saved while the platform was unreachable is saved when it is back.
  useWhenReachable(() => {
    if (error instanceof ApiError && error.status === 0) setError(null);
  });
  return {
    state: stateOf(tab, error),
    error: isConflict(error) ? null : error,
    replace,
    /** Keeps the text under a name of its own. @throws {ApiError} */
    create: async (name: string, shared: boolean): Promise<void> => {
      const body = { name, sql: tab.text, shared };
      note(await call('POST /projects/{project_id}/snippets', { params: { project_id: project.id }, body }));
    },
    /** The text of the server, for a tab of its own. */
    theirs,
    /** The tab is no snippet any more: its text is kept here only. */
    detach: (): void => {
      setError(null);
      change(tab, { snippet: null, name: `${tab.name} (mine)` });
    },
  };
};
