import { useState } from 'react';
import { useLocation } from 'wouter';
import { useProject } from '../../client/project.ts';
import { ChangeDialog } from '../../components/change-dialog.tsx';

interface ColumnDraft {
  readonly id: number;
  readonly name: string;
  readonly type: string;
  readonly isKey: boolean;
  readonly isNullable: boolean;
  readonly expression: string;
}

const types = [
  'text',
  'bigint',
  'integer',
  'boolean',
  'numeric',
  'double precision',
  'timestamptz',
  'date',
  'time',
  'uuid',
  'jsonb',
  'bytea',
  'bigserial',
  'text[]',
  'interval',
  'inet',
];

/** The names of types to choose from; any other may be typed. */
export const TypeNames = () => (
  <datalist id="type-names">
    {types.map((type) => (
      <option key={type} value={type} />
    ))}
  </datalist>
);

interface ColumnFieldsProps {
  readonly draft: ColumnDraft;
  readonly number: number;
  readonly onChange: (draft: ColumnDraft) => void;
  readonly onRemove: () => void;
}

const ColumnFields = ({ draft, number, onChange, onRemove }: ColumnFieldsProps) => (
  <fieldset className="column-fields">
    <legend>Column {number}</legend>
    <div className="row">
      <label>
        Name
        <input value={draft.name} required onChange={({ target }) => onChange({ ...draft, name: target.value })} />
      </label>
      <label>
        Type
        <input
          value={draft.type}
          list="type-names"
          required
          onChange={({ target }) => onChange({ ...draft, type: target.value })}
        />
      </label>
      <label>
        Default (SQL)
        <input value={draft.expression} onChange={({ target }) => onChange({ ...draft, expression: target.value })} />
      </label>
      <label className="inline">
        <input
          type="checkbox"
          checked={draft.isKey}
          onChange={({ target }) => onChange({ ...draft, isKey: target.checked })}
        />
        Primary key
      </label>
      <label className="inline">
        <input
          type="checkbox"
          checked={draft.isNullable && !draft.isKey}
          disabled={draft.isKey}
          onChange={({ target }) => onChange({ ...draft, isNullable: target.checked })}
        />
        May be NULL
      </label>
      <button type="button" className="quiet" aria-label={`Remove column ${number}`} onClick={onRemove}>
        Remove
      </button>
    </div>
  </fieldset>
);

const draftOf = (id: number, more: Partial<ColumnDraft> = {}): ColumnDraft => ({
  id,
  name: '',
  type: 'text',
  isKey: false,
  isNullable: true,
  expression: '',
  ...more,
});

const first = [
  draftOf(1, { name: 'id', type: 'bigserial', isKey: true }),
  draftOf(2, { name: 'created_at', type: 'timestamptz', isNullable: false, expression: 'now()' }),
];

const columnOf = ({ name, type, isKey, isNullable, expression }: ColumnDraft) => ({
  name,
  type,
  primary_key: isKey,
  nullable: isNullable && !isKey,
  ...(expression !== '' && { default: expression }),
});

/** Creates a table. */
export const NewTable = ({ onClose }: { readonly onClose: () => void }) => {
  const { project } = useProject();
  const [, navigate] = useLocation();
  const [name, setName] = useState('');
  const [columns, setColumns] = useState<readonly ColumnDraft[]>(first);
  const isComplete = name !== '' && columns.every((column) => column.name !== '' && column.type !== '');
  const next = Math.max(0, ...columns.map(({ id }) => id)) + 1;
  return (
    <ChangeDialog
      title="New table"
      action="Create the table"
      name={`create_${name.replaceAll(/\W+/g, '_')}`}
      change={isComplete ? { method: 'POST', path: '/tables', body: { name, columns: columns.map(columnOf) } } : null}
      onDone={() => {
        onClose();
        navigate(`/projects/${project.id}/tables/${encodeURIComponent(name)}`);
      }}
      onClose={onClose}
    >
      <label>
        Name of the table
        <input value={name} required autoFocus maxLength={63} onChange={({ target }) => setName(target.value)} />
      </label>
      <TypeNames />
      {columns.map((draft, index) => (
        <ColumnFields
          key={draft.id}
          draft={draft}
          number={index + 1}
          onChange={(changed) => setColumns(columns.map((one) => (one.id === changed.id ? changed : one)))}
          onRemove={() => setColumns(columns.filter(({ id }) => id !== draft.id))}
        />
      ))}
      <button type="button" onClick={() => setColumns([...columns, draftOf(next)])}>
        Add a column
      </button>
    </ChangeDialog>
  );
};

/** Adds a column to a table. */
export const NewColumn = ({ table, onClose }: { readonly table: string; readonly onClose: () => void }) => {
  const [draft, setDraft] = useState(draftOf(1));
  const body = { ...columnOf(draft), primary_key: draft.isKey };
  return (
    <ChangeDialog
      title={`New column of ${table}`}
      action="Add the column"
      name={`add_${draft.name.replaceAll(/\W+/g, '_')}`}
      change={
        draft.name === '' || draft.type === ''
          ? null
          : { method: 'POST', path: `/tables/${encodeURIComponent(table)}/columns`, body }
      }
      onDone={onClose}
      onClose={onClose}
    >
      <TypeNames />
      <label>
        Name
        <input
          value={draft.name}
          required
          autoFocus
          maxLength={63}
          onChange={({ target }) => setDraft({ ...draft, name: target.value })}
        />
      </label>
      <label>
        Type
        <input
          value={draft.type}
          list="type-names"
          required
          onChange={({ target }) => setDraft({ ...draft, type: target.value })}
        />
      </label>
      <label>
        Default (an SQL expression)
        <input value={draft.expression} onChange={({ target }) => setDraft({ ...draft, expression: target.value })} />
      </label>
      <label className="inline">
        <input
          type="checkbox"
          checked={draft.isNullable}
          onChange={({ target }) => setDraft({ ...draft, isNullable: target.checked })}
        />
        May be NULL
      </label>
    </ChangeDialog>
  );
};
