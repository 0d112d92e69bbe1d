import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { bytesText } from '../../client/bytes.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { SchemaTable } from '../../client/schema.ts';
import type { Column } from '../../client/values.ts';
import { Table } from '../../components/table.tsx';
import { NewColumn } from '../tables/new-table.tsx';
import { Diagram } from './diagram.tsx';
import {
  DropDialog,
  EditColumn,
  EditTable,
  NewConstraint,
  NewIndex,
  PolicyForm,
  SwitchRls,
  tablePath,
} from './forms.tsx';
import { aroundOf } from './layout.ts';
import { PolicyTester } from './policy-tester.tsx';

type Index = SchemaTable['indexes'][number];
type Policy = SchemaTable['policies'][number];

/** The change that a dialog is open for. */
type Opened =
  | { readonly kind: 'table' | 'column-new' | 'constraint' | 'index' | 'policy-new' | 'rls' }
  | { readonly kind: 'column'; readonly column: Column }
  | { readonly kind: 'policy'; readonly policy: Policy }
  | { readonly kind: 'drop'; readonly title: string; readonly rest: string; readonly name: string }
  | null;

interface PartProps {
  readonly table: SchemaTable;
  readonly mayWrite: boolean;
  readonly onOpen: (opened: Opened) => void;
}

const dropOf = (what: string, part: string, name: string): Opened => ({
  kind: 'drop',
  title: `Drop the ${what} ${name}`,
  rest: `/${part}/${encodeURIComponent(name)}`,
  name,
});

const Columns = ({ table, mayWrite, onOpen }: PartProps) => (
  <>
    <Table caption="Columns" columns={['Name', 'Type', 'NULL', 'Default', ...(mayWrite ? [''] : [])]}>
      {table.columns.slice(0, 300).map((column) => (
        <tr key={column.name}>
          <td>
            {column.name} {table.primary_key.includes(column.name) && <span className="tag">key</span>}
          </td>
          <td>{column.type}</td>
          <td>{column.nullable ? 'may be' : 'never'}</td>
          <td>
            <code>{column.default ?? column.generated ?? ''}</code>
          </td>
          {mayWrite && (
            <td>
              <button type="button" className="quiet" onClick={() => onOpen({ kind: 'column', column })}>
                Change<span className="unseen"> the column {column.name}</span>
              </button>
              <button type="button" className="quiet" onClick={() => onOpen(dropOf('column', 'columns', column.name))}>
                Drop<span className="unseen"> the column {column.name}</span>
              </button>
            </td>
          )}
        </tr>
      ))}
    </Table>
    {table.columns.length > 300 && <p className="muted">{table.columns.length - 300} more columns are not listed.</p>}
    {mayWrite && (
      <button type="button" onClick={() => onOpen({ kind: 'column-new' })}>
        New column
      </button>
    )}
  </>
);

const Constraints = ({ table, mayWrite, onOpen }: PartProps) => {
  const all = [
    ...table.foreign_keys.map(({ name, columns, references, on_delete: onDelete }) => ({
      name,
      words: `${columns.join(', ')} → ${references.table} (${references.columns.join(', ')}), on delete ${onDelete.toLowerCase()}`,
    })),
    ...table.checks.map(({ name, expression }) => ({ name, words: `check ${expression}` })),
  ];
  return (
    <>
      <Table caption="Foreign keys and checks" columns={['Name', 'Rule', ...(mayWrite ? [''] : [])]}>
        {all.map(({ name, words }) => (
          <tr key={name}>
            <td>{name}</td>
            <td>{words}</td>
            {mayWrite && (
              <td>
                <button
                  type="button"
                  className="quiet"
                  onClick={() => onOpen(dropOf('constraint', 'constraints', name))}
                >
                  Drop<span className="unseen"> the constraint {name}</span>
                </button>
              </td>
            )}
          </tr>
        ))}
      </Table>
      {all.length === 0 && <p className="empty">There are none.</p>}
      {mayWrite && (
        <button type="button" onClick={() => onOpen({ kind: 'constraint' })}>
          New constraint
        </button>
      )}
    </>
  );
};

/** Indexes that keep a rule are needed, however seldom they are read. */
const isUnused = ({ scans, unique, primary }: Index): boolean => scans === 0 && !unique && !primary;

const Indexes = ({ table, mayWrite, onOpen }: PartProps) => (
  <>
    <Table caption="Indexes" columns={['Name', 'Reads', 'Size', 'Definition', ...(mayWrite ? [''] : [])]}>
      {table.indexes.map((index) => (
        <tr key={index.name}>
          <td>
            {index.name} {isUnused(index) && <span className="tag warn">never used</span>}
            {!index.valid && <span className="tag bad">not valid</span>}
          </td>
          <td>{index.scans.toLocaleString('en')}</td>
          <td>{bytesText(index.bytes)}</td>
          <td>
            <code>{index.definition}</code>
          </td>
          {mayWrite && (
            <td>
              {!index.primary && (
                <button type="button" className="quiet" onClick={() => onOpen(dropOf('index', 'indexes', index.name))}>
                  Drop<span className="unseen"> the index {index.name}</span>
                </button>
              )}
            </td>
          )}
        </tr>
      ))}
    </Table>
    {table.indexes.length === 0 && <p className="empty">There are none.</p>}
    {mayWrite && (
      <button type="button" onClick={() => onOpen({ kind: 'index' })}>
        New index
      </button>
    )}
  </>
);

const Policies = ({ table, mayWrite, onOpen }: PartProps) => (
  <>
    <p className="row">
      Row-level security is{' '}
      <span className={table.rls.enabled ? 'tag good' : 'tag warn'}>{table.rls.enabled ? 'on' : 'off'}</span>
      {mayWrite && (
        <button type="button" onClick={() => onOpen({ kind: 'rls' })}>
          Switch it {table.rls.enabled ? 'off' : 'on'}
        </button>
      )}
    </p>
    <Table caption="Policies" columns={['Name', 'For', 'Of', 'Seen', 'Written', ...(mayWrite ? [''] : [])]}>
      {table.policies.map((policy) => (
        <tr key={policy.name}>
          <td>
            {policy.name} {!policy.permissive && <span className="tag">restrictive</span>}
          </td>
          <td>{policy.command.toLowerCase()}</td>
          <td>{policy.roles.join(', ')}</td>
          <td>
            <code>{policy.using}</code>
          </td>
          <td>
            <code>{policy.check}</code>
          </td>
          {mayWrite && (
            <td>
              <button type="button" className="quiet" onClick={() => onOpen({ kind: 'policy', policy })}>
                Change<span className="unseen"> the policy {policy.name}</span>
              </button>
              <button type="button" className="quiet" onClick={() => onOpen(dropOf('policy', 'policies', policy.name))}>
                Drop<span className="unseen"> the policy {policy.name}</span>
              </button>
            </td>
          )}
        </tr>
      ))}
    </Table>
    {table.policies.length === 0 && <p className="empty">There are none.</p>}
    {mayWrite && (
      <button type="button" onClick={() => onOpen({ kind: 'policy-new' })}>
        New policy
      </button>
    )}
    <PolicyTester table={table} />
  </>
);

interface DialogProps {
  readonly table: SchemaTable;
  readonly tables: readonly SchemaTable[];
  readonly opened: Opened;
  readonly onClose: () => void;
}

const OpenedDialog = ({ table, tables, opened, onClose }: DialogProps) => {
  const { project } = useProject();
  const [, navigate] = useLocation();
  const props = { table, onClose };
  if (opened === null) return null;
  switch (opened.kind) {
    case 'table':
      return <EditTable {...props} />;
    case 'column-new':
      return <NewColumn table={table.name} onClose={onClose} />;
    case 'column':
      return <EditColumn {...props} column={opened.column} />;
    case 'constraint':
      return <NewConstraint {...props} tables={tables} />;
    case 'index':
      return <NewIndex {...props} />;
    case 'policy-new':
      return <PolicyForm {...props} policy={null} />;
    case 'policy':
      return <PolicyForm {...props} policy={opened.policy} />;
    case 'rls':
      return <SwitchRls {...props} />;
    case 'drop':
      return (
        <DropDialog
          title={opened.title}
          path={tablePath(table.name, opened.rest)}
          name={opened.name}
          onDone={() => {
            onClose();
            if (opened.rest === '') navigate(`/projects/${project.id}/schema`);
          }}
          onClose={onClose}
        >
          {opened.rest === '' && <p>All rows of the table are deleted with it.</p>}
        </DropDialog>
      );
  }
};

interface DetailsProps {
  readonly table: SchemaTable;
  readonly tables: readonly SchemaTable[];
}

/** All that a table is made of, and the changes of it. */
export const TableDetails = ({ table, tables }: DetailsProps) => {
  const { project, role } = useProject();
  const [opened, setOpened] = useState<Opened>(null);
  const mayWrite = atLeast(role, 'developer') && (table.kind === 'table' || table.kind === 'partitioned');
  const part = { table, mayWrite, onOpen: setOpened };
  const around = aroundOf(tables, table);
  return (
    <>
      <div className="row head">
        <h1>{table.name}</h1>
        <div className="row">
          <Link href={`/projects/${project.id}/tables/${encodeURIComponent(table.name)}`}>Its rows</Link>
          {mayWrite && (
            <>
              <button type="button" onClick={() => setOpened({ kind: 'table' })}>
                Rename
              </button>
              <button
                type="button"
                onClick={() =>
                  setOpened({ kind: 'drop', title: `Drop the table ${table.name}`, rest: '', name: table.name })
                }
              >
                Drop
              </button>
            </>
          )}
        </div>
      </div>
      {table.comment !== null && <p>{table.comment}</p>}
      {!atLeast(role, 'developer') && <p className="muted">The schema is changed by developers, admins and owners.</p>}
      {around.length > 1 && <Diagram tables={around} />}
      <Columns {...part} />
      {table.kind !== 'view' && <Constraints {...part} />}
      <Indexes {...part} />
      <h2>Who sees what</h2>
      <Policies {...part} />
      {table.triggers.length > 0 && (
        <Table caption="Triggers" columns={['Name', 'Definition']}>
          {table.triggers.map(({ name, definition }) => (
            <tr key={name}>
              <td>{name}</td>
              <td>
                <code>{definition}</code>
              </td>
            </tr>
          ))}
        </Table>
      )}
      <OpenedDialog table={table} tables={tables} opened={opened} onClose={() => setOpened(null)} />
    </>
  );
};
