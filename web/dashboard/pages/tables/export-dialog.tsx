import { useEffect, useRef, useState } from 'react';
import { counted } from '../../client/counted.ts';
import { bytesText } from '../../client/bytes.ts';
import { saveFile } from '../../client/download.ts';
import { useProject } from '../../client/project.ts';
import type { SchemaTable } from '../../client/schema.ts';
import { type Format, type Progress, mediaTypes, readTableFile } from '../../client/table-file.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { type View, primaryOrder } from './use-rows.ts';

const addressOf = (projectId: string, table: SchemaTable, { filter, order }: View): string => {
  const query = new URLSearchParams(filter);
  const chosen = order === '' ? primaryOrder(table) : order;
  if (chosen !== '') query.set('order', chosen);
  return `/projects/${projectId}/db/tables/${encodeURIComponent(table.name)}/export?${query}`;
};

interface Props {
  readonly table: SchemaTable;
  readonly view: View;
  /** Rows that the view has, or about as many. */
  readonly total: number;
  readonly onClose: () => void;
}

const ProgressLine = ({
  progress: { rows, bytes },
  total,
}: {
  readonly progress: Progress;
  readonly total: number;
}) => (
  <>
    <progress aria-label="Rows that have come" max={Math.max(total, rows, 1)} value={rows} />
    <p className="muted">
      {counted(rows, 'row')} of about {Math.max(total, rows).toLocaleString('en')}, {bytesText(bytes)}
    </p>
  </>
);

/** Saves the rows that the filter chooses, in their order and as they are at one moment, as a file. */
export const ExportDialog = ({ table, view, total, onClose }: Props) => {
  const { project } = useProject();
  const [progress, setProgress] = useState<Progress | null>(null);
  const [error, setError] = useState<unknown>(null);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);
  const run = async (format: Format): Promise<void> => {
    const controller = new AbortController();
    running.current = controller;
    setError(null);
    setProgress({ rows: 0, bytes: 0 });
    try {
      const file = { at: addressOf(project.id, table, view), format, as: view.as };
      saveFile(
        `${table.name}.${format}`,
        await readTableFile(file, controller.signal, setProgress),
        mediaTypes[format],
      );
      onClose();
    } catch (thrown) {
      if (!controller.signal.aborted) setError(thrown);
      setProgress(null);
    }
  };
  const isRunning = progress !== null;
  return (
    <Dialog title={`Export ${table.name}`} onClose={onClose}>
      <p className="muted">
        {view.filter === '' ? 'All rows' : 'The rows that the filter chooses'}, each once, as they are when the export
        begins. In CSV, NULL is nothing and an empty text is &quot;&quot;.
      </p>
      {isRunning && <ProgressLine progress={progress} total={total} />}
      {error !== null && <Failure error={error} />}
      <p className="row end">
        <button type="button" onClick={isRunning ? () => running.current?.abort() : onClose}>
          {isRunning ? 'Stop' : 'Cancel'}
        </button>
        <button type="button" disabled={isRunning} onClick={() => void run('json')}>
          JSON
        </button>
        <button type="button" className="primary" disabled={isRunning} onClick={() => void run('csv')}>
          CSV
        </button>
      </p>
    </Dialog>
  );
};
