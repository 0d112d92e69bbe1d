import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { ApiError, call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import { useSchema } from '../../client/schema.ts';
import type { Operations } from '../../client/types.ts';
import { Code, type Completions } from '../../components/code.tsx';
import { Failure } from '../../components/failure.tsx';
import { Grid } from '../../components/grid.tsx';

type Answer = Operations['POST /projects/{project_id}/db/query']['answer'];

interface Result {
  /** The text that ran, which may have been changed in the editor since. */
  readonly sql: string;
  readonly ms: number;
  readonly answer: Answer;
}

/** Statements that change every row of a table. */
const isDangerous = (sql: string): boolean =>
  /^\s*(?:update|delete)\b/i.test(sql) && !/\bwhere\b/i.test(sql.replaceAll(/'(?:[^']|'')*'/g, ''));

const positionOf = (error: unknown): number | null => {
  if (!(error instanceof ApiError)) return null;
  const position = (error.details as { position?: unknown } | null)?.position;
  return position === undefined ? null : Number(position) - 1;
};

const ResultView = ({ sql, ms, answer }: Result) => {
  const columns = answer.columns.map(({ name, type }) => ({ name, type }));
  return (
    <>
      <p className="row">
        <span>
          {answer.command}: {answer.row_count.toLocaleString('en')} rows in {Math.round(ms)} ms
        </span>
        {answer.truncated && <strong>There are more rows than are shown.</strong>}
        <code className="muted one-line" title={sql}>
          {sql}
        </code>
      </p>
      {columns.length > 0 && (
        <Grid label="Result" columns={columns} rowCount={answer.rows.length} rowAt={(row) => answer.rows[row]} />
      )}
    </>
  );
};

/** The text is kept with each key that is pressed. */
const useKeptText = (name: string, first: string): readonly [string, (text: string) => void] => {
  const [text, setText] = useState(() => localStorage.getItem(name) ?? first);
  return [
    text,
    (next) => {
      localStorage.setItem(name, next);
      setText(next);
    },
  ];
};

const example = `create table todos (
  id bigint generated always as identity primary key,
  title text not null,
  done boolean not null default false
);`;

/** SQL against the project's database: the selection, or all of the text. */
export const SqlPage = () => {
  const { project } = useProject();
  const queries = useQueryClient();
  const schema = useSchema();
  const [text, setText] = useKeptText(`sql:${project.id}`, example);
  const run = useMutation({
    mutationFn: async (sql: string): Promise<Result> => {
      const began = performance.now();
      const answer = await call('POST /projects/{project_id}/db/query', {
        params: { project_id: project.id },
        body: { sql },
      });
      return { sql, ms: performance.now() - began, answer };
    },
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ['schema', project.id] });
      void queries.invalidateQueries({ queryKey: ['rows', project.id] });
    },
  });
  const completions = useMemo<Completions>(
    () =>
      Object.fromEntries(
        (schema.data?.tables ?? []).map((table) => [
          table.schema === 'public' ? table.name : `${table.schema}.${table.name}`,
          table.columns.map(({ name }) => name),
        ]),
      ),
    [schema.data],
  );
  const begin = (sql: string): void => {
    if (run.isPending) return;
    // oxlint-disable-next-line no-alert -- it stops whatever else is done, which is what it is for
    if (isDangerous(sql) && !confirm('This statement has no WHERE: it changes every row of the table. Run it?')) return;
    run.mutate(sql);
  };
  return (
    <div className="fill">
      <div className="row">
        <h1>SQL</h1>
        <button type="button" className="primary" disabled={run.isPending} onClick={() => begin(text)}>
          {run.isPending ? 'Running…' : 'Run'}
        </button>
        <span className="muted">Ctrl-Enter runs the selection, or everything.</span>
      </div>
      <Code
        label="SQL"
        language="sql"
        value={text}
        onChange={setText}
        onRun={begin}
        completions={completions}
        caret={positionOf(run.error)}
      />
      {run.error && <Failure error={run.error} />}
      {run.data && <ResultView {...run.data} />}
    </div>
  );
};
