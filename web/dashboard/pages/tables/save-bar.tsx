import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { counted } from '../../client/counted.ts';
import { textOf } from '../../client/exact-json.ts';
import { useProject } from '../../client/project.ts';
import type { SchemaTable } from '../../client/schema.ts';
import { type Staged, countOf, rebase, unstage } from '../../client/staged.ts';
import { LongValue } from '../../client/values.ts';
import { Confirm, Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { type Conflict, previewChanges, type useSave } from './use-save.ts';
import type { StagedChanges } from './use-staged.ts';

const Review = ({ table, staged, onClose }: { table: SchemaTable; staged: Staged; onClose: () => void }) => {
  const { project } = useProject();
  const sql = useQuery({
    queryKey: ['changes', project.id, table.name, JSON.stringify(staged)],
    queryFn: () => previewChanges(project.id, table, staged),
    retry: false,
    gcTime: 0,
  });
  return (
    <Dialog title="The changes as SQL" className="wide" onClose={onClose}>
      <p className="muted">They run in one transaction: all of them, or none.</p>
      {sql.error && <Failure error={sql.error} />}
      {sql.data !== undefined && (
        <pre className="sql staged-sql" tabIndex={0}>
          {sql.data.split('\n').map((line, place) => (
            // oxlint-disable-next-line react/no-array-index-key -- lines never change
            <span key={place} className={line.split(' ', 1)[0]}>
              {line}
              {'\n'}
            </span>
          ))}
        </pre>
      )}
      <p className="row end">
        <button type="button" onClick={onClose}>
          Close
        </button>
      </p>
    </Dialog>
  );
};

const shown = (value: unknown): string => {
  if (value === null || value === undefined) return 'NULL';
  const text = value instanceof LongValue ? value.start : textOf(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
};

interface ConflictLineProps {
  readonly conflict: Conflict;
  readonly edits: StagedChanges;
  readonly onSettled: () => void;
}

/** A row that somebody else has changed: their values beside one's own, and what to do. */
const ConflictLine = ({ conflict: { key, theirs }, edits, onSettled }: ConflictLineProps) => {
  const { staged, change } = edits;
  const mine = staged.updates[key];
  const names = Object.keys(mine?.old ?? staged.deletes[key]?.old ?? {});
  const settle = (next: Staged): void => {
    change(next);
    onSettled();
  };
  return (
    <li className="row">
      <span>
        <strong>{key}</strong>{' '}
        {theirs === null
          ? 'was deleted by somebody else.'
          : names
              .filter((name) => mine !== undefined || shown(theirs[name]) !== shown(staged.deletes[key]?.old[name]))
              .map(
                (name) =>
                  `${name}: theirs ${shown(theirs[name])}, yours ${mine ? shown(mine.values[name]) : 'deleted'}`,
              )
              .join('; ')}
      </span>
      <button type="button" onClick={() => settle(unstage(staged, key))}>
        Keep theirs
      </button>
      {theirs !== null && (
        <button type="button" onClick={() => settle(rebase(staged, key, theirs))}>
          Keep mine
        </button>
      )}
    </li>
  );
};

interface SaveBarProps {
  readonly table: SchemaTable;
  readonly edits: StagedChanges;
  readonly saving: ReturnType<typeof useSave>;
  readonly onClosed: () => void;
}

/** The staged changes: their number, their SQL, and the rows that others have changed meanwhile. */
export const SaveBar = ({ table, edits, saving, onClosed }: SaveBarProps) => {
  const { staged, isKept, undo, canUndo, clear } = edits;
  const { save, conflicts, settle } = saving;
  const [dialog, setDialog] = useState<'review' | 'discard' | null>(null);
  const count = countOf(staged);
  const close = (): void => {
    setDialog(null);
    onClosed();
  };
  return (
    <section className="save-bar" aria-label="Changes that are not saved">
      <div className="row">
        <span role="status">
          {count} {count === 1 ? 'change is' : 'changes are'} not saved
        </span>
        <button type="button" className="primary" disabled={save.isPending} onClick={() => save.mutate(staged)}>
          {save.isPending ? 'Saving…' : 'Save'}
        </button>
        <button type="button" onClick={() => setDialog('review')}>
          Show the SQL
        </button>
        <button type="button" disabled={!canUndo} onClick={undo}>
          Undo
        </button>
        <button type="button" onClick={() => setDialog('discard')}>
          Discard all
        </button>
      </div>
      {!isKept && (
        <p className="bad" role="status">
          This browser has no room for so many changes: they are lost when this window is closed. Save them soon.
        </p>
      )}
      {save.error && <Failure error={save.error} />}
      {conflicts.length > 0 && (
        <ul className="conflicts">
          {conflicts.map((conflict) => (
            <ConflictLine
              key={conflict.key}
              conflict={conflict}
              edits={edits}
              onSettled={() => {
                settle(conflict.key);
                save.reset();
              }}
            />
          ))}
        </ul>
      )}
      {dialog === 'review' && <Review table={table} staged={staged} onClose={close} />}
      {dialog === 'discard' && (
        <Confirm
          title="Discard the changes"
          action="Discard"
          onConfirm={() => {
            clear();
            save.reset();
            close();
          }}
          onClose={close}
        >
          <p>{counted(count, 'change')} of this table will be lost, since nothing of it was saved.</p>
        </Confirm>
      )}
    </section>
  );
};
