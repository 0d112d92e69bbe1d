import { useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { call } from '../../client/api.ts';
import { useKnownTables } from '../../client/completions.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { type SqlTab, type SqlTabs, useSqlTabs } from '../../client/sql-tabs.ts';
import { dangerOf, statementAt, statementsOf } from '../../client/sql-text.ts';
import { Code, type CodeHandle } from '../../components/code.tsx';
import { Confirm } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { AiFailure, GenerateDialog } from './ai.tsx';
import { HistoryDialog, SaveDialog, SnippetsDialog } from './lists.tsx';
import { Results } from './results.tsx';
import { type Run, type RunRequest, placeOf, run } from './run.ts';
import { type SaveState, useSnippet } from './use-snippet.ts';
import { useSearch } from '../../client/search.ts';

const example = `create table todos (
  id bigint generated always as identity primary key,
  title text not null,
  done boolean not null default false
);`;

type Mode = 'run' | 'all' | 'explain' | 'analyze';

/** The SQL that is about to run, and its position in the editor. */
interface Wanted {
  readonly request: RunRequest;
  readonly from: number;
  /** Characters that were put before it. */
  readonly added: number;
}

const explainWords: Readonly<Partial<Record<Mode, string>>> = {
  explain: 'explain (format json) ',
  analyze: 'explain (analyze, buffers, format json) ',
};

const chosenText = (editor: CodeHandle, mode: Mode): { text: string; from: number } => {
  const text = editor.text();
  const { from, to } = editor.selection();
  if (mode === 'all') return { text, from: 0 };
  if (from !== to) return { text: text.slice(from, to), from };
  const place = statementAt(text, from);
  return place === null ? { text: '', from: 0 } : { text: text.slice(place.from, place.to), from: place.from };
};

const wantedOf = (editor: CodeHandle, mode: Mode, base: Pick<RunRequest, 'projectId' | 'isReadOnly'>): Wanted => {
  const { text, from } = chosenText(editor, mode);
  const words = explainWords[mode] ?? '';
  const isScript = mode === 'analyze' ? !base.isReadOnly : statementsOf(text).length > 1;
  const isRemembered = words === '';
  const request = { ...base, sql: `${words}${text}`, isScript, isDryRun: mode === 'analyze', isRemembered };
  return { request, from, added: words.length };
};

/** The running statement, its result, and the way to cancel it. */
const useRunner = (editor: React.RefObject<CodeHandle | null>) => {
  const queries = useQueryClient();
  const running = useRef<AbortController | null>(null);
  const [state, setState] = useState<{ isRunning: boolean; run: Run | null; error: unknown; note: string }>({
    isRunning: false,
    run: null,
    error: null,
    note: '',
  });
  const start = async ({ request, from, added }: Wanted): Promise<void> => {
    if (running.current !== null) return;
    const controller = new AbortController();
    running.current = controller;
    setState({ isRunning: true, run: null, error: null, note: '' });
    try {
      const done = await run(request, controller.signal);
      setState({ isRunning: false, run: done, error: null, note: '' });
      for (const key of ['schema', 'row']) void queries.invalidateQueries({ queryKey: [key, request.projectId] });
    } catch (error) {
      const isCancelled = controller.signal.aborted;
      const note = isCancelled ? 'It was cancelled: the database has been told to stop.' : '';
      setState({ isRunning: false, run: null, error: isCancelled ? null : error, note });
      const place = isCancelled ? null : placeOf(error, request);
      if (place !== null) editor.current?.select(from + Math.max(0, place - added));
    } finally {
      running.current = null;
    }
  };
  const clear = (): void => setState({ isRunning: false, run: null, error: null, note: '' });
  return { ...state, start, clear, cancel: () => running.current?.abort() };
};

const stateWords: Readonly<Record<SaveState, string>> = {
  local: 'Kept in this browser',
  saved: 'Saved',
  changed: 'Changed since it was saved',
  conflict: 'Somebody else has saved another text',
  failed: 'Not saved',
};

interface TabBarProps {
  readonly tabs: SqlTabs;
  readonly active: SqlTab;
  readonly onChoose: (id: string) => void;
}

const isKept = ({ text, snippet }: SqlTab): boolean =>
  text.trim() === '' || snippet?.saved === text || text === example;

/** The open texts. Closing one that is kept nowhere else is confirmed. */
const TabBar = ({ tabs, active, onChoose }: TabBarProps) => {
  const [doomed, setDoomed] = useState<SqlTab | null>(null);
  const close = (tab: SqlTab): void => {
    setDoomed(null);
    tabs.close(tab.id);
    if (tab.id === active.id) onChoose(tabs.tabs.find(({ id }) => id !== tab.id)?.id ?? '');
  };
  return (
    <nav className="tabs sql-tabs" aria-label="Texts">
      {tabs.tabs.map((tab) => (
        <span key={tab.id} aria-current={tab.id === active.id ? 'page' : undefined}>
          <button type="button" className="quiet" onClick={() => onChoose(tab.id)}>
            {tab.name}
          </button>
          <button
            type="button"
            className="quiet"
            aria-label={`Close ${tab.name}`}
            onClick={() => (isKept(tab) ? close(tab) : setDoomed(tab))}
          >
            ×
          </button>
        </span>
      ))}
      <button type="button" className="quiet" onClick={() => onChoose(tabs.open())}>
        New tab
      </button>
      {doomed !== null && (
        <Confirm
          title="Close the tab"
          action="Close and forget"
          onConfirm={() => close(doomed)}
          onClose={() => setDoomed(null)}
        >
          <p>The text of {doomed.name} is kept nowhere else. Save it as a snippet to keep it.</p>
        </Confirm>
      )}
    </nav>
  );
};

interface DangerProps {
  readonly words: string;
  readonly sql: string;
  readonly onRun: () => void;
  readonly onCancel: () => void;
}

const Danger = ({ words, sql, onRun, onCancel }: DangerProps) => (
  <div className="notice warn" role="alert">
    <p>
      <strong>{words}</strong> <code className="one-line">{sql.slice(0, 200)}</code>
    </p>
    <p className="row">
      <button type="button" className="danger" onClick={onRun}>
        Run it all the same
      </button>
      {/* oxlint-disable-next-line jsx-a11y/no-autofocus -- the safe answer is the nearest one */}
      <button type="button" autoFocus onClick={onCancel}>
        Do not run it
      </button>
    </p>
  </div>
);

interface ConflictProps {
  readonly snippet: ReturnType<typeof useSnippet>;
  readonly tabs: SqlTabs;
  readonly onChoose: (id: string) => void;
}

/** Somebody else has saved another text: both are kept. */
const Conflict = ({ snippet, tabs, onChoose }: ConflictProps) => {
  const open = async (): Promise<void> => {
    const { id, name, sql, version, shared } = await snippet.theirs();
    snippet.detach();
    onChoose(tabs.open({ name, text: sql, snippet: { id, version, shared, saved: sql } }));
  };
  return (
    <div className="notice warn" role="alert">
      <p>Somebody else has saved another text of this snippet. Yours is kept here, and theirs on the server.</p>
      <p className="row">
        <button type="button" onClick={() => void open()}>
          Open theirs beside mine
        </button>
        <button type="button" onClick={snippet.detach}>
          Keep mine as a text of its own
        </button>
      </p>
    </div>
  );
};

type OpenDialog = 'snippets' | 'history' | 'save' | 'generate' | null;

/** The explanation of a statement by a model. */
const useExplanation = () => {
  const { project } = useProject();
  const [state, setState] = useState<{ text: string; error: unknown; isPending: boolean }>({
    text: '',
    error: null,
    isPending: false,
  });
  const explain = async (sql: string): Promise<void> => {
    setState({ text: '', error: null, isPending: true });
    try {
      const message = `Explain what this SQL does, and what to mind about it:\n\n${sql.slice(0, 9000)}`;
      const { response } = await call('POST /projects/{project_id}/zy/chat', {
        params: { project_id: project.id },
        body: { message },
      });
      setState({ text: response, error: null, isPending: false });
    } catch (error) {
      setState({ text: '', error, isPending: false });
    }
  };
  return { ...state, explain };
};

interface ToolsProps {
  readonly isRunning: boolean;
  readonly isReadOnly: boolean;
  readonly mayWrite: boolean;
  readonly onMode: (mode: Mode) => void;
  readonly onCancel: () => void;
  readonly onReadOnly: (isReadOnly: boolean) => void;
  readonly onOpen: (dialog: OpenDialog) => void;
  readonly onExplain: () => void;
}

const Tools = ({ isRunning, isReadOnly, mayWrite, onMode, onCancel, onReadOnly, onOpen, onExplain }: ToolsProps) => (
  <div className="row">
    {isRunning ? (
      <button type="button" className="danger" onClick={onCancel}>
        Cancel
      </button>
    ) : (
      <button type="button" className="primary" title="Ctrl-Enter" onClick={() => onMode('run')}>
        Run
      </button>
    )}
    {mayWrite && (
      <button type="button" disabled={isRunning} onClick={() => onMode('all')}>
        Run all
      </button>
    )}
    <button type="button" disabled={isRunning} onClick={() => onMode('explain')}>
      Explain
    </button>
    <button type="button" disabled={isRunning} onClick={() => onMode('analyze')}>
      Analyze
    </button>
    {mayWrite && (
      <label className="inline">
        <input type="checkbox" checked={isReadOnly} onChange={({ target }) => onReadOnly(target.checked)} />
        Read only
      </label>
    )}
    <button type="button" className="quiet" onClick={() => onOpen('snippets')}>
      Snippets
    </button>
    <button type="button" className="quiet" onClick={() => onOpen('history')}>
      History
    </button>
    {mayWrite && (
      <>
        <button type="button" className="quiet" onClick={() => onOpen('save')}>
          Save as a snippet
        </button>
        <button type="button" className="quiet" onClick={() => onOpen('generate')}>
          Write with AI
        </button>
        <button type="button" className="quiet" onClick={onExplain}>
          Explain with AI
        </button>
      </>
    )}
  </div>
);

/** One text: it is written, run, and kept. */
const Editor = ({ tab, tabs, onChoose }: { tab: SqlTab; tabs: SqlTabs; onChoose: (id: string) => void }) => {
  const { project, role } = useProject();
  const editor = useRef<CodeHandle>(null);
  const runner = useRunner(editor);
  const snippet = useSnippet(tab, tabs);
  const explanation = useExplanation();
  const tables = useKnownTables();
  const mayWrite = atLeast(role, 'developer');
  const [isReadOnly, setReadOnly] = useState(false);
  const [danger, setDanger] = useState<{ readonly words: string; readonly wanted: Wanted } | null>(null);
  const [dialog, setDialog] = useState<OpenDialog>(null);
  const begin = (mode: Mode): void => {
    if (editor.current === null || runner.isRunning) return;
    const wanted = wantedOf(editor.current, mode, { projectId: project.id, isReadOnly: isReadOnly || !mayWrite });
    if (wanted.request.sql.trim() === '') return;
    const text = wanted.request.sql;
    const words = statementsOf(text).flatMap(({ from, to }) => dangerOf(text.slice(from, to)) ?? [])[0];
    const isHarmless = words === undefined || wanted.request.isReadOnly || mode === 'explain' || mode === 'analyze';
    setDanger(isHarmless ? null : { words, wanted });
    if (!isHarmless) runner.clear();
    if (isHarmless) void runner.start(wanted);
  };
  const opened = (id: string): void => {
    setDialog(null);
    onChoose(id);
  };
  const write = (text: string): void => {
    if (text === tab.text) return;
    const id = tabs.change(tab, { text });
    if (id !== tab.id) onChoose(id);
  };
  const list = { tabs, onOpened: opened, onClose: () => setDialog(null) };
  return (
    <>
      <Code
        label="SQL"
        language="sql"
        value={tab.text}
        onChange={write}
        onRun={() => begin('run')}
        tables={tables}
        handle={editor}
      />
      <Tools
        isRunning={runner.isRunning}
        {...{ isReadOnly, mayWrite }}
        onMode={begin}
        onCancel={runner.cancel}
        onReadOnly={setReadOnly}
        onOpen={setDialog}
        onExplain={() => editor.current && void explanation.explain(chosenText(editor.current, 'run').text)}
      />
      <p className="muted small">
        {stateWords[snippet.state]}. Ctrl-Enter runs the selection, or the statement at the caret.
        {snippet.state === 'changed' && tab.snippet?.shared === true && mayWrite && (
          <button type="button" className="quiet" onClick={() => void snippet.replace()}>
            Save for all
          </button>
        )}
      </p>
      {snippet.state === 'conflict' && <Conflict {...{ snippet, tabs, onChoose }} />}
      {snippet.error !== null && <Failure error={snippet.error} onRetry={() => void snippet.replace()} />}
      {tabs.fault !== null && <p role="alert">{tabs.fault}</p>}
      {danger !== null && (
        <Danger
          words={danger.words}
          sql={danger.wanted.request.sql}
          onRun={() => {
            setDanger(null);
            void runner.start(danger.wanted);
          }}
          onCancel={() => {
            setDanger(null);
            const { from, to } = editor.current?.selection() ?? { from: 0, to: 0 };
            editor.current?.select(from, to);
          }}
        />
      )}
      {runner.isRunning && <p role="status">Running…</p>}
      {runner.note !== '' && <p role="status">{runner.note}</p>}
      {runner.error !== null && <Failure error={runner.error} />}
      {runner.run !== null && <Results run={runner.run} />}
      {explanation.isPending && <p role="status">A model reads it…</p>}
      {explanation.error !== null && <AiFailure error={explanation.error} />}
      {explanation.text !== '' && <p className="panel said">{explanation.text}</p>}
      {dialog === 'snippets' && <SnippetsDialog {...list} />}
      {dialog === 'history' && <HistoryDialog {...list} />}
      {dialog === 'generate' && <GenerateDialog {...list} />}
      {dialog === 'save' && <SaveDialog name={tab.name} onSave={snippet.create} onClose={() => setDialog(null)} />}
    </>
  );
};

/** SQL against the project's database, in texts that are never lost. */
export const SqlPage = () => {
  const { project } = useProject();
  const tabs = useSqlTabs(project.id, example);
  const [search, setSearch] = useSearch();
  const active = tabs.tabs.find(({ id }) => id === search.get('tab')) ?? tabs.tabs[0];
  const choose = (id: string): void => setSearch(id === '' ? {} : { tab: id });
  return (
    <div className="fill">
      <h1>SQL</h1>
      {active && (
        <>
          <TabBar tabs={tabs} active={active} onChoose={choose} />
          <Editor key={active.id} tab={active} tabs={tabs} onChoose={choose} />
        </>
      )}
    </div>
  );
};
