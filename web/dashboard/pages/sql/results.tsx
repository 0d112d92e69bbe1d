import { useState } from 'react';
import { counted } from '../../client/counted.ts';
import { csvCell } from '../../client/delimited.ts';
import { saveFile } from '../../client/download.ts';
import { textOf } from '../../client/exact-json.ts';
import { Grid } from '../../components/grid.tsx';
import { Chart } from './chart.tsx';
import { type Plan, PlanTree } from './plan.tsx';
import type { Result, Run } from './run.ts';

type Form = 'grid' | 'json' | 'chart';

/** Characters of JSON that are shown; a file has all of it. */
const maxShown = 200_000;

const csvOf = ({ columns, rows }: Result): string => {
  const lines = rows.map((row) =>
    columns
      .map(({ name }) => csvCell(row[name] === null || row[name] === undefined ? null : textOf(row[name])))
      .join(','),
  );
  return `${[columns.map(({ name }) => csvCell(name)).join(','), ...lines].join('\n')}\n`;
};

const planOf = ({ columns, rows }: Result): Plan | null => {
  const plan = columns[0]?.name === 'QUERY PLAN' ? rows[0]?.['QUERY PLAN'] : undefined;
  const read = typeof plan === 'string' && plan.startsWith('[') ? (JSON.parse(plan) as unknown) : plan;
  return Array.isArray(read) ? ((read[0] as Plan | undefined) ?? null) : null;
};

const Rows = ({ result }: { readonly result: Result }) => {
  const [form, setForm] = useState<Form>('grid');
  const json = form === 'json' ? JSON.stringify(result.rows, null, 2) : '';
  return (
    <>
      <div className="row">
        <label className="inline">
          Show as
          <select value={form} onChange={({ target }) => setForm(target.value as Form)}>
            <option value="grid">grid</option>
            <option value="json">JSON</option>
            <option value="chart">chart</option>
          </select>
        </label>
        <button type="button" className="quiet" onClick={() => saveFile('result.csv', [csvOf(result)], 'text/csv')}>
          Save as CSV
        </button>
        <button
          type="button"
          className="quiet"
          onClick={() => saveFile('result.json', [JSON.stringify(result.rows, null, 1)], 'application/json')}
        >
          Save as JSON
        </button>
      </div>
      {form === 'grid' && (
        <Grid label="Result" columns={result.columns} rowCount={result.rows.length} rowAt={(row) => result.rows[row]} />
      )}
      {form === 'json' && <pre tabIndex={0}>{json.slice(0, maxShown)}</pre>}
      {form === 'chart' && <Chart result={result} />}
    </>
  );
};

const ResultView = ({ result }: { readonly result: Result }) => {
  const plan = planOf(result);
  if (plan !== null) return <PlanTree plan={plan} />;
  return result.columns.length > 0 ? <Rows result={result} /> : null;
};

/** The answers of what ran, the last of them first in sight, with the text that they are of. */
export const Results = ({ run: { sql, ms, results } }: { readonly run: Run }) => {
  const [chosen, setChosen] = useState(results.length - 1);
  const result = results[chosen] ?? results.at(-1);
  if (result === undefined) return null;
  return (
    <section aria-label="Result">
      {results.length > 1 && (
        <label className="inline">
          Statement
          <select value={chosen} onChange={({ target }) => setChosen(Number(target.value))}>
            {results.map(({ command, rowCount }, index) => (
              // oxlint-disable-next-line react/no-array-index-key -- results never change
              <option key={index} value={index}>
                {index + 1}: {command} ({rowCount})
              </option>
            ))}
          </select>
        </label>
      )}
      <p className="row" role="status">
        <span>
          {result.command}: {counted(result.rowCount, 'row')} in {Math.round(ms)} ms
        </span>
        {result.isTruncated && <strong className="warn">There are more rows than are shown.</strong>}
        <code className="muted one-line" title={sql.slice(0, 2000)}>
          {sql.slice(0, 500)}
        </code>
      </p>
      <ResultView key={chosen} result={result} />
    </section>
  );
};
