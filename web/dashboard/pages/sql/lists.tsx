import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { SqlTabs } from '../../client/sql-tabs.ts';
import { Confirm, Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';

export interface ListProps {
  readonly tabs: SqlTabs;
  readonly onOpened: (id: string) => void;
  readonly onClose: () => void;
}

/** Texts that this person and the project keep. */
export const SnippetsDialog = ({ tabs, onOpened, onClose }: ListProps) => {
  const { project, role } = useProject();
  const queries = useQueryClient();
  const params = { project_id: project.id };
  const [search, setSearch] = useState('');
  const [doomed, setDoomed] = useState<{ readonly id: string; readonly name: string } | null>(null);
  const snippets = useQuery({
    queryKey: ['snippets', project.id],
    queryFn: () => call('GET /projects/{project_id}/snippets', { params, query: { limit: 200 } }),
  });
  const remove = useMutation({
    mutationFn: (id: string) =>
      call('DELETE /projects/{project_id}/snippets/{snippet_id}', { params: { ...params, snippet_id: id } }),
    onSettled: () => queries.invalidateQueries({ queryKey: ['snippets', project.id] }),
  });
  const found = (snippets.data?.snippets ?? []).filter(({ name }) => name.toLowerCase().includes(search.toLowerCase()));
  return (
    <Dialog title="Snippets" className="wide" onClose={onClose}>
      <label>
        Search
        <input type="search" value={search} onChange={({ target }) => setSearch(target.value)} />
      </label>
      {(snippets.error ?? remove.error) !== null && <Failure error={snippets.error ?? remove.error} />}
      <ul className="choices">
        {found.map((snippet) => {
          const { id, name, sql, shared, version } = snippet;
          const open = (): void => {
            const known = tabs.tabs.find((tab) => tab.snippet?.id === id);
            onOpened(known?.id ?? tabs.open({ name, text: sql, snippet: { id, version, shared, saved: sql } }));
          };
          return (
            <li key={id} className="row">
              <button type="button" className="quiet" onClick={open}>
                {name}
              </button>
              {shared && <span className="tag">shared</span>}
              <code className="muted one-line">{sql.slice(0, 200)}</code>
              {atLeast(role, 'developer') && (
                <button
                  type="button"
                  className="quiet"
                  aria-label={`Delete ${name}`}
                  onClick={() => setDoomed(snippet)}
                >
                  Delete
                </button>
              )}
            </li>
          );
        })}
      </ul>
      {snippets.data && found.length === 0 && <p className="empty">There is none. Save a tab to make one.</p>}
      <p className="row end">
        <button type="button" onClick={onClose}>
          Close
        </button>
      </p>
      {doomed !== null && (
        <Confirm
          title="Delete the snippet"
          action="Delete"
          onConfirm={() => {
            remove.mutate(doomed.id);
            setDoomed(null);
          }}
          onClose={() => setDoomed(null)}
        >
          <p>{doomed.name} is deleted. Tabs that show it keep its text.</p>
        </Confirm>
      )}
    </Dialog>
  );
};

/** The statements that this person ran, the newest first. */
export const HistoryDialog = ({ tabs, onOpened, onClose }: ListProps) => {
  const { project } = useProject();
  const runs = useQuery({
    queryKey: ['history', project.id],
    queryFn: () =>
      call('GET /projects/{project_id}/db/history', { params: { project_id: project.id }, query: { limit: 200 } }),
    staleTime: 0,
  });
  return (
    <Dialog title="What you ran" className="wide" onClose={onClose}>
      {runs.error && <Failure error={runs.error} />}
      <Table caption="Statements" isCaptionHidden columns={['When', 'Took', 'Rows', 'Statement']}>
        {runs.data?.runs.map(({ id, sql, duration_ms: ms, row_count: rows, error, ran_at: at }) => (
          <tr key={id}>
            <td>{new Date(at).toLocaleString('en')}</td>
            <td>{ms} ms</td>
            <td>{error === null ? rows : <span className="bad">{error}</span>}</td>
            <td>
              <button type="button" className="quiet one-line" onClick={() => onOpened(tabs.open({ text: sql }))}>
                {sql.slice(0, 120)}
              </button>
            </td>
          </tr>
        ))}
      </Table>
      {runs.data?.runs.length === 0 && <p className="empty">Nothing yet.</p>}
      <p className="row end">
        <button type="button" onClick={onClose}>
          Close
        </button>
      </p>
    </Dialog>
  );
};

interface SaveDialogProps {
  readonly name: string;
  readonly onSave: (name: string, shared: boolean) => Promise<void>;
  readonly onClose: () => void;
}

/** Names a text that is to be kept on the server. */
export const SaveDialog = ({ name, onSave, onClose }: SaveDialogProps) => {
  const [error, setError] = useState<unknown>(null);
  const submit = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget;
    try {
      await onSave(fieldOf(form, 'name'), fieldOf(form, 'shared') === 'on');
      onClose();
    } catch (thrown) {
      setError(thrown);
    }
  };
  return (
    <Dialog title="Save as a snippet" onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <label>
          Name
          <input name="name" defaultValue={name} required maxLength={100} autoFocus />
        </label>
        <label className="inline">
          <input type="checkbox" name="shared" />
          All members of the project see it
        </label>
        {error !== null && <Failure error={error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary">
            Save
          </button>
        </p>
      </form>
    </Dialog>
  );
};
