import { type ReactNode, useState } from 'react';
import type { SchemaTable } from '../../client/schema.ts';
import type { SchemaChange } from '../../client/schema-changes.ts';
import type { Column } from '../../client/values.ts';
import { ChangeDialog } from '../../components/change-dialog.tsx';
import { TypeNames } from '../tables/new-table.tsx';

type Policy = SchemaTable['policies'][number];

interface FormProps {
  readonly table: SchemaTable;
  readonly onClose: () => void;
}

export const tablePath = (name: string, rest = ''): string => `/tables/${encodeURIComponent(name)}${rest}`;

interface TextFieldProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (text: string) => void;
  readonly isRequired?: boolean;
  readonly list?: string;
}

const TextField = ({ label, value, onChange, isRequired = false, list }: TextFieldProps) => (
  <label>
    {label}
    <input value={value} required={isRequired} list={list} onChange={({ target }) => onChange(target.value)} />
  </label>
);

interface CheckFieldProps {
  readonly label: string;
  readonly value: boolean;
  readonly onChange: (value: boolean) => void;
}

const CheckField = ({ label, value, onChange }: CheckFieldProps) => (
  <label className="inline">
    <input type="checkbox" checked={value} onChange={({ target }) => onChange(target.checked)} />
    {label}
  </label>
);

interface ColumnsFieldProps {
  readonly table: SchemaTable;
  readonly value: readonly string[];
  readonly onChange: (columns: readonly string[]) => void;
}

/** Columns in the order in which they were chosen. */
const ColumnsField = ({ table, value, onChange }: ColumnsFieldProps) => (
  <fieldset>
    <legend>Columns{value.length > 0 && `: ${value.join(', ')}`}</legend>
    <div className="row">
      {table.columns.slice(0, 100).map(({ name }) => (
        <CheckField
          key={name}
          label={name}
          value={value.includes(name)}
          onChange={(on) => onChange(on ? [...value, name] : value.filter((one) => one !== name))}
        />
      ))}
    </div>
  </fieldset>
);

const word = (text: string): string => text.replaceAll(/\W+/g, '_');

/** The fields of a form that differ from the present state. */
const changesOf = (all: Readonly<Record<string, readonly [value: unknown, before: unknown]>>): object | null => {
  const changed = Object.entries(all).filter(([, [value, before]]) => value !== before);
  return changed.length === 0 ? null : Object.fromEntries(changed.map(([name, [value]]) => [name, value]));
};

/** Renames a table. */
export const EditTable = ({ table, onClose }: FormProps) => {
  const [name, setName] = useState(table.name);
  const [comment, setComment] = useState(table.comment ?? '');
  const body = changesOf({ name: [name, table.name], comment: [comment || null, table.comment] });
  return (
    <ChangeDialog
      title={`Change ${table.name}`}
      action="Change the table"
      name={`change_${word(table.name)}`}
      change={body === null || name === '' ? null : { method: 'PATCH', path: tablePath(table.name), body }}
      onDone={onClose}
      onClose={onClose}
    >
      <TextField label="Name" value={name} onChange={setName} isRequired />
      <TextField label="Comment" value={comment} onChange={setComment} />
    </ChangeDialog>
  );
};

/** Renames a column, and changes its type, default and NOT NULL. */
export const EditColumn = ({ table, column, onClose }: FormProps & { readonly column: Column }) => {
  const [draft, setDraft] = useState({
    name: column.name,
    type: column.type,
    using: '',
    expression: column.default ?? '',
    nullable: column.nullable,
  });
  const set = (more: Partial<typeof draft>): void => setDraft({ ...draft, ...more });
  const isTyped = draft.type !== column.type;
  const changed = changesOf({
    name: [draft.name, column.name],
    type: [draft.type, column.type],
    default: [draft.expression || null, column.default],
    nullable: [draft.nullable, column.nullable],
  });
  const body = changed && isTyped && draft.using !== '' ? { ...changed, using: draft.using } : changed;
  return (
    <ChangeDialog
      title={`Change ${column.name}`}
      action="Change the column"
      name={`change_${word(table.name)}_${word(column.name)}`}
      change={
        body === null
          ? null
          : { method: 'PATCH', path: tablePath(table.name, `/columns/${encodeURIComponent(column.name)}`), body }
      }
      onDone={onClose}
      onClose={onClose}
    >
      <TypeNames />
      <TextField label="Name" value={draft.name} onChange={(name) => set({ name })} isRequired />
      <TextField label="Type" value={draft.type} onChange={(type) => set({ type })} list="type-names" isRequired />
      {isTyped && (
        <TextField
          label="How values become the new type (an SQL expression; empty: by a cast)"
          value={draft.using}
          onChange={(using) => set({ using })}
        />
      )}
      <TextField
        label="Default (an SQL expression)"
        value={draft.expression}
        onChange={(expression) => set({ expression })}
      />
      <CheckField label="May be NULL" value={draft.nullable} onChange={(nullable) => set({ nullable })} />
    </ChangeDialog>
  );
};

type ConstraintKind = 'foreign_key' | 'unique' | 'check' | 'primary_key';

const actions = ['no action', 'restrict', 'cascade', 'set null', 'set default'];

/** Adds a key or a check. */
export const NewConstraint = ({ table, tables, onClose }: FormProps & { readonly tables: readonly SchemaTable[] }) => {
  const [kind, setKind] = useState<ConstraintKind>('foreign_key');
  const [columns, setColumns] = useState<readonly string[]>([]);
  const [expression, setExpression] = useState('');
  const [other, setOther] = useState('');
  const [onDelete, setOnDelete] = useState('no action');
  const bodies: Readonly<Record<ConstraintKind, object | null>> = {
    check: expression === '' ? null : { kind, expression },
    unique: columns.length === 0 ? null : { kind, columns },
    primary_key: columns.length === 0 ? null : { kind, columns },
    foreign_key:
      columns.length === 0 || other === ''
        ? null
        : { kind, columns, references: { table: other }, on_delete: onDelete },
  };
  const body = bodies[kind];
  return (
    <ChangeDialog
      title={`New constraint of ${table.name}`}
      action="Add the constraint"
      name={`constrain_${word(table.name)}`}
      change={body === null ? null : { method: 'POST', path: tablePath(table.name, '/constraints'), body }}
      onDone={onClose}
      onClose={onClose}
    >
      <label>
        Kind
        <select value={kind} onChange={({ target }) => setKind(target.value as ConstraintKind)}>
          <option value="foreign_key">Foreign key</option>
          <option value="unique">Unique</option>
          <option value="check">Check</option>
          <option value="primary_key">Primary key</option>
        </select>
      </label>
      {kind === 'check' ? (
        <TextField label="Condition (SQL)" value={expression} onChange={setExpression} isRequired />
      ) : (
        <ColumnsField table={table} value={columns} onChange={setColumns} />
      )}
      {kind === 'foreign_key' && (
        <>
          <TextField label="Refers to the table" value={other} onChange={setOther} list="table-names" isRequired />
          <datalist id="table-names">
            {tables.slice(0, 1000).map(({ name }) => (
              <option key={name} value={name} />
            ))}
          </datalist>
          <label>
            When that row is deleted
            <select value={onDelete} onChange={({ target }) => setOnDelete(target.value)}>
              {actions.map((action) => (
                <option key={action}>{action}</option>
              ))}
            </select>
          </label>
        </>
      )}
    </ChangeDialog>
  );
};

const methods = ['btree', 'hash', 'gin', 'gist', 'brin'];

/** Creates an index. */
export const NewIndex = ({ table, onClose }: FormProps) => {
  const [columns, setColumns] = useState<readonly string[]>([]);
  const [method, setMethod] = useState('btree');
  const [isUnique, setUnique] = useState(false);
  const [predicate, setPredicate] = useState('');
  const body = {
    method,
    unique: isUnique,
    columns: columns.map((column) => ({ column })),
    ...(predicate !== '' && { predicate }),
  };
  return (
    <ChangeDialog
      title={`New index of ${table.name}`}
      action="Create the index"
      name={`index_${word(table.name)}`}
      change={columns.length === 0 ? null : { method: 'POST', path: tablePath(table.name, '/indexes'), body }}
      onDone={onClose}
      onClose={onClose}
    >
      <ColumnsField table={table} value={columns} onChange={setColumns} />
      <label>
        Method
        <select value={method} onChange={({ target }) => setMethod(target.value)}>
          {methods.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      </label>
      <CheckField label="Unique" value={isUnique} onChange={setUnique} />
      <TextField label="Only rows with (SQL)" value={predicate} onChange={setPredicate} />
      <p className="muted">Who writes to the table waits until the index is built.</p>
    </ChangeDialog>
  );
};

const commands = ['all', 'select', 'insert', 'update', 'delete'];
const roleNames = ['public', 'anon', 'authenticated'];

interface PolicyDraft {
  readonly name: string;
  readonly command: string;
  readonly role: string;
  readonly using: string;
  readonly check: string;
}

const draftOf = (policy: Policy | null): PolicyDraft => ({
  name: policy?.name ?? '',
  command: policy?.command.toLowerCase() ?? 'select',
  role: policy?.roles[0] ?? 'authenticated',
  using: policy?.using ?? '',
  check: policy?.check ?? '',
});

const newPolicy = ({ name, command, role, using, check }: PolicyDraft): object => ({
  name,
  command,
  roles: [role],
  ...(using !== '' && { using }),
  ...(check !== '' && { check }),
});

/** An expression that is taken out stays as it is: PostgreSQL can replace one, and not take it away. */
const policyChange = (table: SchemaTable, policy: Policy | null, draft: PolicyDraft): SchemaChange | null => {
  if (draft.name === '') return null;
  if (policy === null) return { method: 'POST', path: tablePath(table.name, '/policies'), body: newPolicy(draft) };
  const body = changesOf({
    name: [draft.name, policy.name],
    using: [draft.using || policy.using, policy.using],
    check: [draft.check || policy.check, policy.check],
  });
  const path = tablePath(table.name, `/policies/${encodeURIComponent(policy.name)}`);
  return body === null ? null : { method: 'PATCH', path, body };
};

/** Creates a policy, or changes one. */
export const PolicyForm = ({ table, policy, onClose }: FormProps & { readonly policy: Policy | null }) => {
  const [draft, setDraft] = useState(draftOf(policy));
  const set = (more: Partial<PolicyDraft>): void => setDraft({ ...draft, ...more });
  return (
    <ChangeDialog
      title={policy === null ? `New policy of ${table.name}` : `Change ${policy.name}`}
      action={policy === null ? 'Create the policy' : 'Change the policy'}
      name={`policy_${word(table.name)}_${word(draft.name)}`}
      change={policyChange(table, policy, draft)}
      onDone={onClose}
      onClose={onClose}
    >
      <TextField label="Name" value={draft.name} onChange={(name) => set({ name })} isRequired />
      {policy === null && (
        <>
          <label>
            For
            <select value={draft.command} onChange={({ target }) => set({ command: target.value })}>
              {commands.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          </label>
          <label>
            Of
            <select value={draft.role} onChange={({ target }) => set({ role: target.value })}>
              {roleNames.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          </label>
        </>
      )}
      <TextField
        label="Rows that are seen (SQL), e.g. user_id = auth.uid()"
        value={draft.using}
        onChange={(using) => set({ using })}
      />
      <TextField label="Rows that may be written (SQL)" value={draft.check} onChange={(check) => set({ check })} />
    </ChangeDialog>
  );
};

interface DropProps {
  /** Names the object that is dropped. */
  readonly title: string;
  readonly path: string;
  readonly name: string;
  readonly mayCascade?: boolean;
  readonly children?: ReactNode;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Drops something of the schema, once somebody has read its SQL. */
export const DropDialog = ({ title, path, name, mayCascade = true, children, onDone, onClose }: DropProps) => {
  const [isCascading, setCascading] = useState(false);
  return (
    <ChangeDialog
      title={title}
      action="Drop"
      isDangerous
      name={`drop_${word(name)}`}
      change={{ method: 'DELETE', path: isCascading ? `${path}?cascade=true` : path }}
      onDone={onDone}
      onClose={onClose}
    >
      {children}
      {mayCascade && <CheckField label="What depends on it, too" value={isCascading} onChange={setCascading} />}
    </ChangeDialog>
  );
};

/** Switches row-level security. */
export const SwitchRls = ({ table, onClose }: FormProps) => {
  const enabled = !table.rls.enabled;
  return (
    <ChangeDialog
      title={`Row-level security of ${table.name}`}
      action={enabled ? 'Switch it on' : 'Switch it off'}
      isDangerous={!enabled}
      name={`row_level_security_${word(table.name)}`}
      change={{ method: 'PATCH', path: tablePath(table.name), body: { row_level_security: { enabled } } }}
      onDone={onClose}
      onClose={onClose}
    >
      <p>
        {enabled
          ? 'From then on policies decide what users and keys for browsers see and write.'
          : 'Users and keys for browsers see nothing of the table while it is off.'}
      </p>
    </ChangeDialog>
  );
};

/** Creates an enumerated type. */
export const NewEnum = ({ onClose }: { readonly onClose: () => void }) => {
  const [name, setName] = useState('');
  const [text, setText] = useState('');
  const values = text.split('\n').filter((line) => line !== '');
  return (
    <ChangeDialog
      title="New enumerated type"
      action="Create the type"
      name={`create_${word(name)}`}
      change={name === '' || values.length === 0 ? null : { method: 'POST', path: '/enums', body: { name, values } }}
      onDone={onClose}
      onClose={onClose}
    >
      <TextField label="Name" value={name} onChange={setName} isRequired />
      <label>
        Values, one a line
        <textarea value={text} rows={5} onChange={({ target }) => setText(target.value)} />
      </label>
    </ChangeDialog>
  );
};

/** Adds a value to an enumerated type. */
export const NewEnumValue = ({ name, onClose }: { readonly name: string; readonly onClose: () => void }) => {
  const [value, setValue] = useState('');
  return (
    <ChangeDialog
      title={`New value of ${name}`}
      action="Add the value"
      name={`add_to_${word(name)}`}
      change={
        value === '' ? null : { method: 'PATCH', path: `/enums/${encodeURIComponent(name)}`, body: { add: { value } } }
      }
      onDone={onClose}
      onClose={onClose}
    >
      <TextField label="Value" value={value} onChange={setValue} isRequired />
    </ChangeDialog>
  );
};
