import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { filterOf } from '../../client/conditions.ts';
import { textOf } from '../../client/exact-json.ts';
import { useProject } from '../../client/project.ts';
import type { SchemaTable } from '../../client/schema.ts';
import { type Column, LongValue, type Row } from '../../client/values.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { byDefault } from '../../components/grid.tsx';
import { readRow } from './use-rows.ts';

type ForeignKey = SchemaTable['foreign_keys'][number];

/** The row that a foreign key leads to: its table, and the values that identify it. */
interface Referenced {
  readonly table: string;
  readonly key: Row;
}

const referencedBy = (key: ForeignKey, row: Row): Referenced | null => {
  const { references, columns } = key;
  if (references.schema !== 'public') return null;
  const values = columns.map((column) => row[column]);
  if (values.some((value) => value === null || value === undefined || value === byDefault)) return null;
  return {
    table: references.table,
    key: Object.fromEntries(references.columns.map((column, index) => [column, values[index]])),
  };
};

const addressOf = (projectId: string, { table, key }: Referenced): string => {
  const conditions = Object.entries(key).map(([column, value]) => ({ column, operator: 'eq', value: textOf(value) }));
  const query = new URLSearchParams({ filter: filterOf(conditions) });
  return `/projects/${projectId}/tables/${encodeURIComponent(table)}?${query}`;
};

const Peek = ({ referenced, onClose }: { readonly referenced: Referenced; readonly onClose: () => void }) => {
  const { project } = useProject();
  const row = useQuery({
    queryKey: ['row', project.id, referenced.table, JSON.stringify(referenced.key)],
    queryFn: () => readRow(project.id, referenced.table, referenced.key),
  });
  return (
    <Dialog title={referenced.table} onClose={onClose}>
      {row.isPending && <p className="loading">Loading…</p>}
      {row.error && <Failure error={row.error} />}
      {row.data === null && <p className="empty">There is no such row.</p>}
      {row.data && (
        <dl className="facts">
          {Object.entries(row.data).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value === null ? <i>NULL</i> : textOf(value).slice(0, 500)}</dd>
            </div>
          ))}
        </dl>
      )}
      <p className="row end">
        <Link href={addressOf(project.id, referenced)}>Open in {referenced.table}</Link>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </p>
    </Dialog>
  );
};

const inWords = (value: unknown): string => {
  if (value === undefined) return '';
  if (value === null) return 'NULL';
  if (value === byDefault) return 'gets the default of the column';
  if (value === '') return 'an empty text';
  const text = value instanceof LongValue ? value.start : textOf(value);
  const length = value instanceof LongValue ? value.length : text.length;
  return `${text.slice(0, 120)}${length > 120 ? `… (${length.toLocaleString('en')} characters)` : ''}`;
};

interface CellBarProps {
  readonly table: SchemaTable;
  readonly column: Column | undefined;
  readonly row: Row | undefined;
  readonly onOpen: () => void;
}

/** The active cell in words, and where it leads. */
export const CellBar = ({ table, column, row, onOpen }: CellBarProps) => {
  const { project } = useProject();
  const [peeked, setPeeked] = useState<Referenced | null>(null);
  if (column === undefined || row === undefined) return <p className="cell-bar muted">No cell is selected.</p>;
  const keys = table.foreign_keys.filter(({ columns }) => columns.includes(column.name));
  const referenced = keys.flatMap((key) => referencedBy(key, row) ?? []);
  return (
    <div className="cell-bar row">
      <span>
        <strong>{column.name}</strong> <span className="muted">{column.type}</span> {inWords(row[column.name])}
      </span>
      <button type="button" className="quiet" onClick={onOpen}>
        Whole value
      </button>
      {referenced.map((one) => (
        <span key={one.table}>
          <button type="button" className="quiet" onClick={() => setPeeked(one)}>
            Peek at {one.table}
          </button>
          <Link href={addressOf(project.id, one)}>Open in {one.table}</Link>
        </span>
      ))}
      {peeked !== null && <Peek referenced={peeked} onClose={() => setPeeked(null)} />}
    </div>
  );
};
