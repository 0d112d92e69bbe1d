import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { useKnownTables } from '../../client/completions.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Code } from '../../components/code.tsx';
import { Confirm, Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { type Draft, type Fn, type Source, bodyOf, isOneFile, usualEntry } from './source.ts';

interface FilesProps {
  readonly fn: Fn;
  readonly draft: Draft;
  readonly open: string;
  readonly mayChange: boolean;
  readonly onOpen: (path: string) => void;
}

const without = (source: Source, path: string): Source =>
  Object.fromEntries(Object.entries(source).filter(([each]) => each !== path));

const NewFile = ({
  fn,
  draft,
  onOpen,
  onClose,
}: Omit<FilesProps, 'open' | 'mayChange'> & { readonly onClose: () => void }) => {
  const [fault, setFault] = useState<string | null>(null);
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const path = fieldOf(event.currentTarget, 'path').trim();
    const { source } = draft;
    const present = isOneFile(source) ? { [usualEntry(fn.language)]: source[''] ?? '' } : source;
    if (Object.hasOwn(present, path)) return setFault('There is a file of that path already.');
    draft.change({ ...present, [path]: '' });
    onOpen(path);
    onClose();
  };
  return (
    <Dialog title="New file" onClose={onClose}>
      <form onSubmit={submit}>
        <label>
          Path
          <input
            name="path"
            required
            maxLength={200}
            placeholder={fn.language === 'python' ? 'lib/rates.py' : 'lib/rates.ts'}
          />
        </label>
        {isOneFile(draft.source) && (
          <p className="muted">
            The present code becomes <code>{usualEntry(fn.language)}</code>.
          </p>
        )}
        {fault !== null && (
          <p className="bad" role="alert">
            {fault}
          </p>
        )}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary">
            Add the file
          </button>
        </p>
      </form>
    </Dialog>
  );
};

/** The files of a function: open, add, remove. */
const Files = ({ fn, draft, open, mayChange, onOpen }: FilesProps) => {
  const [dialog, setDialog] = useState<'new' | 'remove' | null>(null);
  const paths = Object.keys(draft.source).toSorted();
  return (
    <div className="row source-files">
      {!isOneFile(draft.source) && (
        <nav aria-label="Files" className="row">
          {paths.map((path) => (
            <button key={path} type="button" aria-pressed={path === open} onClick={() => onOpen(path)}>
              {path}
              {path === fn.entrypoint && <span className="muted"> (entry)</span>}
            </button>
          ))}
        </nav>
      )}
      {mayChange && (
        <button type="button" className="quiet" onClick={() => setDialog('new')}>
          Add a file
        </button>
      )}
      {mayChange && paths.length > 1 && (
        <button type="button" className="quiet" onClick={() => setDialog('remove')}>
          Remove {open}
        </button>
      )}
      {dialog === 'new' && <NewFile fn={fn} draft={draft} onOpen={onOpen} onClose={() => setDialog(null)} />}
      {dialog === 'remove' && (
        <Confirm
          title={`Remove ${open}?`}
          action="Remove the file"
          onClose={() => setDialog(null)}
          onConfirm={() => {
            draft.change(without(draft.source, open));
            onOpen(paths.find((path) => path !== open) ?? '');
            setDialog(null);
          }}
        >
          <p>It goes from the draft. What is deployed keeps it until you deploy.</p>
        </Confirm>
      )}
    </div>
  );
};

/** Why the runs of a large module start cold, as its deploy found out. */
const Cold = ({ fn }: { readonly fn: Fn }) =>
  fn.warm_start?.snapshot === false && (
    <p className="muted">Each run evaluates the module of this version anew: {fn.warm_start.reason}.</p>
  );

/** Deploys the draft; says what it is based on when others have deployed meanwhile. */
const Deploy = ({ fn, draft }: { readonly fn: Fn; readonly draft: Draft }) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const [isDiscarding, setDiscarding] = useState(false);
  const deploy = useMutation({
    mutationFn: (source: Source) =>
      call('PATCH /projects/{project_id}/functions/{id}', {
        params: { project_id: project.id, id: fn.id },
        body: bodyOf(source, fn.entrypoint),
      }),
    onSuccess: async ({ version }, source) => {
      await queries.refetchQueries({ queryKey: ['function', fn.id] });
      draft.settle(source, version);
      void queries.invalidateQueries({ queryKey: ['versions', fn.id] });
    },
  });
  const state = draft.isKept
    ? 'Not deployed yet; kept in this browser.'
    : 'Not deployed yet; this browser has no room to keep it.';
  return (
    <>
      {draft.behind !== null && (
        <p className="bad" role="status">
          Version {fn.version} was deployed while you changed version {draft.behind}. The tab Versions compares them;
          deploying replaces it, and it is kept as a version.
        </p>
      )}
      <p className="row">
        <button
          type="button"
          className="primary"
          disabled={!draft.isChanged || deploy.isPending}
          onClick={() => deploy.mutate(draft.source)}
        >
          {deploy.isPending ? 'Deploying…' : 'Deploy'}
        </button>
        {draft.isChanged && (
          <button type="button" onClick={() => setDiscarding(true)}>
            Discard the draft
          </button>
        )}
        <span className="muted">{draft.isChanged ? state : `Version ${fn.version}`}</span>
      </p>
      {!draft.isChanged && <Cold fn={fn} />}
      {deploy.error && <Failure error={deploy.error} />}
      {isDiscarding && (
        <Confirm
          title="Discard the draft?"
          action="Discard the draft"
          onClose={() => setDiscarding(false)}
          onConfirm={() => {
            draft.discard();
            setDiscarding(false);
          }}
        >
          <p>What you changed since version {fn.version} is lost.</p>
        </Confirm>
      )}
    </>
  );
};

interface EditorProps {
  readonly fn: Fn;
  readonly draft: Draft;
  readonly onRun: () => void;
}

/** The code of a function, in one file or in several. */
export const Editor = ({ fn, draft, onRun }: EditorProps) => {
  const { role } = useProject();
  const tables = useKnownTables();
  const { source } = draft;
  const [wanted, setWanted] = useState(fn.entrypoint ?? '');
  const open = Object.hasOwn(source, wanted) ? wanted : (Object.keys(source).toSorted()[0] ?? '');
  const mayChange = atLeast(role, 'developer');
  return (
    <section aria-label="Code">
      <Files fn={fn} draft={draft} open={open} mayChange={mayChange} onOpen={setWanted} />
      <Code
        key={open}
        label={open === '' ? `Code of ${fn.name}` : open}
        language={open.endsWith('.py') || (open === '' && fn.language === 'python') ? 'python' : 'javascript'}
        value={source[open] ?? ''}
        tables={tables}
        isReadOnly={!mayChange}
        onChange={(text) => {
          if (text !== source[open]) draft.change({ ...source, [open]: text });
        }}
        onRun={onRun}
      />
      {mayChange ? (
        <Deploy fn={fn} draft={draft} />
      ) : (
        <p className="muted">Developers, admins and owners change and run code.</p>
      )}
    </section>
  );
};
