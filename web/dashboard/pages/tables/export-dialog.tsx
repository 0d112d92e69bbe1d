import { useEffect, useRef, useState } from 'react';
import { send } from '../../client/api.ts';
import { csvCell } from '../../client/delimited.ts';
import { saveFile } from '../../client/download.ts';
import { textOf } from '../../client/exact-json.ts';
import { useProject } from '../../client/project.ts';
import { restPath } from '../../client/rest.ts';
import type { SchemaTable } from '../../client/schema.ts';
import type { Row } from '../../client/values.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { type View, primaryOrder } from './use-rows.ts';

type Format = 'csv' | 'json';

/** Rows of one request, and of a file: more would not fit into the memory of a browser. */
const portion = 1000;
const maxRows = 1_000_000;

interface Export {
  readonly projectId: string;
  readonly table: SchemaTable;
  readonly view: View;
  readonly format: Format;
}

const lineOf = (row: Row, { table, format }: Export): string =>
  format === 'json'
    ? JSON.stringify(row)
    : table.columns
        .map(({ name }) => {
          const value = row[name];
          return csvCell(value === null || value === undefined ? null : textOf(value));
        })
        .join(',');

const readAll = async (
  wanted: Export,
  signal: AbortSignal,
  onProgress: (rows: number) => void,
): Promise<readonly string[]> => {
  const { projectId, table, view, format } = wanted;
  const lines: string[] = [];
  for (let offset = 0; offset < maxRows; offset += portion) {
    const query = new URLSearchParams(view.filter);
    query.set('order', view.order === '' ? primaryOrder(table) : view.order);
    if (query.get('order') === '') query.delete('order');
    query.set('limit', String(portion));
    query.set('offset', String(offset));
    const headers = { 'x-plinth-as': view.as };
    const { body } = await send(`${restPath(projectId, table.name)}?${query}`, { signal, headers }, true);
    const rows = body as Row[];
    for (const row of rows) lines.push(lineOf(row, wanted));
    onProgress(lines.length);
    if (rows.length < portion) break;
  }
  if (format === 'json') return ['[\n', lines.join(',\n'), '\n]\n'];
  return [`${table.columns.map(({ name }) => csvCell(name)).join(',')}\n`, lines.map((line) => `${line}\n`).join('')];
};

const mediaTypes: Readonly<Record<Format, string>> = { csv: 'text/csv', json: 'application/json' };

/** Saves the rows that the filter chooses, in their order, as a file. */
export const ExportDialog = ({ table, view, onClose }: { table: SchemaTable; view: View; onClose: () => void }) => {
  const { project } = useProject();
  const [rows, setRows] = useState<number | null>(null);
  const [error, setError] = useState<unknown>(null);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);
  const run = async (format: Format): Promise<void> => {
    const controller = new AbortController();
    running.current = controller;
    setError(null);
    setRows(0);
    try {
      const parts = await readAll({ projectId: project.id, table, view, format }, controller.signal, setRows);
      saveFile(`${table.name}.${format}`, parts, mediaTypes[format]);
      onClose();
    } catch (thrown) {
      if (!controller.signal.aborted) setError(thrown);
      setRows(null);
    }
  };
  return (
    <Dialog title={`Export ${table.name}`} onClose={onClose}>
      <p className="muted">
        {view.filter === '' ? 'All rows' : 'The rows that the filter chooses'}, up to {maxRows.toLocaleString('en')}. In
        CSV, NULL is nothing and an empty text is &quot;&quot;.
      </p>
      {rows !== null && <p role="status">{rows.toLocaleString('en')} rows are read…</p>}
      {error !== null && <Failure error={error} />}
      <p className="row end">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" disabled={rows !== null} onClick={() => void run('json')}>
          JSON
        </button>
        <button type="button" className="primary" disabled={rows !== null} onClick={() => void run('csv')}>
          CSV
        </button>
      </p>
    </Dialog>
  );
};
