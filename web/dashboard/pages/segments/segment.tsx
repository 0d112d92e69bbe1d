import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { saveFile } from '../../client/download.ts';
import { useDraft } from '../../client/draft.ts';
import { isConflict } from '../../client/faults.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Confirm, Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { FaultAt, Field } from '../../components/field.tsx';
import { Conditions } from '../flags/conditions.tsx';
import { DraftConflict } from '../flags/draft-conflict.tsx';
import { ConditionsPanel, KeysPanel, useConditionsTrial } from './membership.tsx';
import { type EditedSegment, type Segment, editedOf, keysOf, maxEditedLength, patchOf } from './segment-shapes.ts';

const isLong = (keys: string | null): boolean => keys !== null && keys.length > maxEditedLength;

const parsedDraft = (text: string, saved: EditedSegment): EditedSegment => {
  try {
    return { ...saved, ...(JSON.parse(text) as Partial<EditedSegment>) };
  } catch {
    return saved;
  }
};

/** The text under which the browser keeps an edit. */
const kept = (edited: EditedSegment): string =>
  JSON.stringify(isLong(edited.keys) ? { ...edited, keys: null } : edited);

/** The edit of a segment, which the browser keeps until it is saved, but for long lists of keys. */
const useEdited = (segment: Segment) => {
  const { project } = useProject();
  const saved = editedOf(segment);
  const [long, setLong] = useState<string | null>(null);
  const draft = useDraft(`${project.id}:segment:${segment.key}`, kept(saved));
  const typed = parsedDraft(draft.text, saved);
  const edited: EditedSegment = { ...typed, keys: long ?? typed.keys ?? saved.keys };
  return {
    saved,
    edited,
    isChanged: JSON.stringify(patchOf(edited)) !== JSON.stringify(patchOf(saved)),
    change: (next: EditedSegment): void => {
      setLong(isLong(next.keys) ? next.keys : null);
      draft.change(kept(next));
    },
    forget: (): void => {
      setLong(null);
      draft.forget();
    },
    /** As `forget`, but what was typed since this was sent stays. */
    forgetSaved: (sent: EditedSegment): void => {
      setLong((now) => (now === sent.keys ? null : now));
      draft.forgetSaved(kept(sent));
    },
  };
};

interface KeysProps {
  readonly of: Segment;
  readonly text: string;
  readonly error: unknown;
  readonly mayWrite: boolean;
  readonly onChange: (text: string) => void;
}

const KeysInput = ({ of, text, error, mayWrite, onChange }: KeysProps) => {
  const count = keysOf(text).size.toLocaleString();
  const read = async (file: File | undefined): Promise<void> => {
    if (file !== undefined) onChange(await file.text());
  };
  return (
    <>
      {isLong(text) ? (
        <p>The list is too long to be edited here. A file replaces it.</p>
      ) : (
        <Field label="Targeting keys, one a line" at="keys" error={error}>
          {(given) => (
            <textarea
              {...given}
              rows={12}
              value={text}
              readOnly={!mayWrite}
              spellCheck={false}
              onChange={({ target }) => onChange(target.value)}
            />
          )}
        </Field>
      )}
      {isLong(text) && <FaultAt at="keys" error={error} />}
      <p role="status">{count} different keys.</p>
      <p className="row">
        {mayWrite && (
          <label className="inline">
            Replace them by the lines of a file
            <input type="file" accept=".txt,.csv,text/plain" onChange={({ target }) => void read(target.files?.[0])} />
          </label>
        )}
        <button type="button" onClick={() => saveFile(`${of.key}.txt`, [text], 'text/plain')}>
          Download the keys
        </button>
      </p>
    </>
  );
};

interface EditingProps {
  readonly segment: Segment;
  readonly mayWrite: boolean;
}

const Editing = ({ segment, mayWrite }: EditingProps) => {
  const { project } = useProject();
  const params = { project_id: project.id, key: segment.key };
  const stale = [
    ['segment', project.id],
    ['segments', project.id],
  ];
  const { saved, edited, isChanged, change, forget, forgetSaved } = useEdited(segment);
  // Fields with a text of their own begin anew with each other state of the segment.
  const [epoch, setEpoch] = useState(0);
  const trial = useConditionsTrial(segment.key, edited.conditions);
  const giveUp = (): void => {
    forget();
    setEpoch(epoch + 1);
  };
  const save = useChange(
    (sent: EditedSegment) =>
      call('PATCH /projects/{project_id}/segments/{key}', {
        params,
        headers: { 'if-match': `"${sent.version}"` },
        body: patchOf(sent),
      }),
    { stale, onRead: forgetSaved },
  );
  const queries = useQueryClient();
  const submit = (): void =>
    save.mutate(edited, {
      onError: (error) => void (isConflict(error) && queries.invalidateQueries({ queryKey: ['segment', project.id] })),
    });
  const error = trial.error ?? save.error;
  return (
    <>
      {isChanged && edited.version !== segment.version && (
        <DraftConflict
          what="The segment"
          version={segment.version}
          theirs={patchOf(saved)}
          mine={patchOf(edited)}
          onKeep={() => change({ ...edited, version: segment.version })}
          onTake={giveUp}
        />
      )}
      <div className="beside">
        <div className="fill">
          <fieldset disabled={!mayWrite && edited.conditions !== null} key={`${epoch} ${segment.version}`}>
            <legend className="unseen">The segment</legend>
            <section>
              <Field label="Name" at="name" error={error}>
                {(given) => (
                  <input
                    {...given}
                    value={edited.name}
                    maxLength={100}
                    required
                    readOnly={!mayWrite}
                    onChange={({ target }) => change({ ...edited, name: target.value })}
                  />
                )}
              </Field>
            </section>
            {edited.conditions !== null && (
              <section className="rules" aria-label="Conditions">
                {edited.conditions.length === 0 && <p className="empty">Without conditions everybody belongs to it.</p>}
                <Conditions
                  name="the segment"
                  at="conditions"
                  error={error}
                  conditions={edited.conditions}
                  onChange={(conditions) => change({ ...edited, conditions })}
                />
              </section>
            )}
            {edited.keys !== null && edited.conditions === null && (
              <section aria-label="Keys">
                <KeysInput
                  of={segment}
                  text={edited.keys}
                  error={error}
                  mayWrite={mayWrite}
                  onChange={(keys) => change({ ...edited, keys })}
                />
              </section>
            )}
          </fieldset>
          {save.error && !isConflict(save.error) && (
            <Failure error={save.error} fields={['name', 'conditions', 'keys']} />
          )}
          {isConflict(save.error) && (
            <p role="alert">Somebody else has changed the segment. Your changes are still here.</p>
          )}
          {isChanged && mayWrite && (
            <p className="row sticky">
              <button type="button" className="primary" disabled={save.isPending} onClick={submit}>
                Save the segment
              </button>
              <button type="button" onClick={giveUp}>
                Undo
              </button>
            </p>
          )}
        </div>
        {edited.conditions === null ? <KeysPanel text={edited.keys ?? ''} /> : <ConditionsPanel trial={trial} />}
      </div>
    </>
  );
};

const Users = ({ segment }: { readonly segment: Segment }) => {
  const { project } = useProject();
  if (segment.used_by.length === 0) return <p className="empty">No flag names it.</p>;
  return (
    <ul aria-label="Flags that name it">
      {segment.used_by.map(({ key, environment }) => (
        <li key={`${environment} ${key}`}>
          <Link href={`/projects/${project.id}/flags/${key}?environment=${environment}`}>{key}</Link> in {environment}
        </li>
      ))}
    </ul>
  );
};

const Delete = ({ segment: present, onClose }: { readonly segment: Segment; readonly onClose: () => void }) => {
  // The segment as it was when somebody decided: a change of a colleague meanwhile is a conflict.
  const [segment] = useState(present);
  const { project } = useProject();
  const [, go] = useLocation();
  const remove = useChange(
    () =>
      call('DELETE /projects/{project_id}/segments/{key}', {
        params: { project_id: project.id, key: segment.key },
        headers: { 'if-match': `"${segment.version}"` },
      }),
    { stale: [['segments', project.id]], onDone: () => go(`/projects/${project.id}/segments`) },
  );
  if (segment.used_by.length > 0)
    return (
      <Dialog title={`${segment.key} is in use`} onClose={onClose}>
        <p>It cannot be deleted while rules of flags name it:</p>
        <Users segment={segment} />
        <p className="row end">
          <button type="button" onClick={onClose}>
            Close
          </button>
        </p>
      </Dialog>
    );
  return (
    <Confirm
      title={`Delete ${segment.key}?`}
      action="Delete the segment"
      onConfirm={() => remove.mutate(undefined)}
      onClose={onClose}
    >
      <p>No flag names it. Its conditions, or its keys, are gone then.</p>
      {remove.error && <Failure error={remove.error} />}
    </Confirm>
  );
};

/** One segment: who belongs to it, and which flags name it. */
export const SegmentPage = ({ name: key }: { readonly name: string }) => {
  const { project, role } = useProject();
  const [isDeleting, setDeleting] = useState(false);
  const segment = useQuery({
    queryKey: ['segment', project.id, key],
    queryFn: () => call('GET /projects/{project_id}/segments/{key}', { params: { project_id: project.id, key } }),
  });
  const mayWrite = atLeast(role, 'developer');
  return (
    <>
      <p>
        <Link href={`/projects/${project.id}/segments`}>All segments</Link>
      </p>
      {segment.error && <Failure error={segment.error} onRetry={() => void segment.refetch()} />}
      {segment.data !== undefined && (
        <>
          <div className="row">
            <h1>
              <bdi>{segment.data.key}</bdi>
            </h1>
            {mayWrite && (
              <button type="button" onClick={() => setDeleting(true)}>
                Delete
              </button>
            )}
          </div>
          {!mayWrite && <p className="muted">Segments are changed by developers, admins and owners.</p>}
          <Editing key={key} segment={segment.data} mayWrite={mayWrite} />
          <h2>Flags that name it</h2>
          <Users segment={segment.data} />
          {isDeleting && <Delete segment={segment.data} onClose={() => setDeleting(false)} />}
        </>
      )}
    </>
  );
};
