import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { useDraft } from '../../client/draft.ts';
import { isConflict } from '../../client/faults.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Confirm } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Evaluation, useEvaluation } from './evaluation.tsx';
import { Archive, References, Unarchive } from './archive.tsx';
import { DraftConflict } from './draft-conflict.tsx';
import { type Edited, type Flag, defaultEnvironment, editedFields, editedOf, patchOf } from './flag-shapes.ts';
import { FlagEditor } from './flag-editor.tsx';
import { History, OtherEnvironments, Schedules, Stats } from './flag-parts.tsx';
import { useSearch } from '../../client/search.ts';

const parsedDraft = (text: string, saved: Edited): Edited => {
  try {
    return { ...saved, ...(JSON.parse(text) as Partial<Edited>) };
  } catch {
    return saved;
  }
};

const useFlag = (key: string, environment: string) => {
  const { project } = useProject();
  return useQuery({
    queryKey: ['flag', project.id, environment, key],
    queryFn: () =>
      call('GET /projects/{project_id}/flags/{key}', {
        params: { project_id: project.id, key },
        query: { environment },
      }),
  });
};

const staleOf = (projectId: string) => [
  ['flag', projectId],
  ['flags', projectId],
  ['flag-history', projectId],
  ['flag-evaluation', projectId],
];

const Editing = ({ flag, mayWrite }: { readonly flag: Flag; readonly mayWrite: boolean }) => {
  const { project } = useProject();
  const { key, environment } = flag;
  const saved = editedOf(flag);
  const draft = useDraft(`${project.id}:flag:${environment}:${key}`, JSON.stringify(saved));
  // Fields with a text of their own begin anew with each other state of the flag.
  const [epoch, setEpoch] = useState(0);
  const edited = parsedDraft(draft.text, saved);
  const change = patchOf(edited);
  const isChanged = draft.isChanged && JSON.stringify(change) !== JSON.stringify(patchOf(saved));
  const tried = useEvaluation(key, environment, JSON.stringify(change));
  const giveUp = (): void => {
    draft.forget();
    setEpoch(epoch + 1);
  };
  const save = useChange(
    (text: string) => {
      const sent = parsedDraft(text, saved);
      return call('PATCH /projects/{project_id}/flags/{key}', {
        params: { project_id: project.id, key },
        query: { environment },
        headers: { 'if-match': `"${sent.version}"` },
        body: patchOf(sent),
      });
    },
    { stale: staleOf(project.id), onRead: draft.forgetSaved },
  );
  const queries = useQueryClient();
  const submit = (): void =>
    save.mutate(draft.text, {
      onError: (error) => void (isConflict(error) && queries.invalidateQueries({ queryKey: ['flag', project.id] })),
    });
  return (
    <>
      {isChanged && edited.version !== flag.version && (
        <DraftConflict
          what="The flag"
          version={flag.version}
          theirs={patchOf(saved)}
          mine={change}
          onKeep={() => draft.change(JSON.stringify({ ...edited, version: flag.version }))}
          onTake={giveUp}
        />
      )}
      <div className="beside">
        <div className="fill">
          <FlagEditor
            key={`${epoch} ${flag.version}`}
            flag={flag}
            edited={edited}
            mayWrite={mayWrite}
            tried={tried}
            error={tried.error ?? save.error}
            onChange={(next) => draft.change(JSON.stringify(next))}
          />
          {save.error && !isConflict(save.error) && <Failure error={save.error} fields={editedFields} />}
          {isConflict(save.error) && (
            <p role="alert">Somebody else has changed the flag. Your changes are still here.</p>
          )}
          {isChanged && (
            <p className="row sticky">
              <button type="button" className="primary" disabled={save.isPending} onClick={submit}>
                Save the flag
              </button>
              <button type="button" onClick={giveUp}>
                Undo
              </button>
            </p>
          )}
        </div>
        <Evaluation tried={tried} />
      </div>
      {mayWrite && <Schedules flag={flag} change={isChanged ? change : null} onScheduled={giveUp} />}
      <OtherEnvironments flag={flag} />
      <Stats flag={flag} />
      <History flag={flag} mayWrite={mayWrite} />
    </>
  );
};

/** An archived flag is read, and nothing else: it is evaluated for nobody. */
const Kept = ({ flag }: { readonly flag: Flag }) => (
  <>
    <p className="notice">
      This flag is archived. Applications that ask for it get their own default, and it can be changed again once it is
      out of the archive.
    </p>
    <FlagEditor
      flag={flag}
      edited={editedOf(flag)}
      mayWrite={false}
      tried={null}
      error={null}
      onChange={() => undefined}
    />
    <OtherEnvironments flag={flag} />
    <History flag={flag} mayWrite={false} />
  </>
);

const Delete = ({ flag, onClose }: { readonly flag: Flag; readonly onClose: () => void }) => {
  const { project } = useProject();
  const [, go] = useLocation();
  const remove = useChange(
    () =>
      call('DELETE /projects/{project_id}/flags/{key}', {
        params: { project_id: project.id, key: flag.key },
        query: { environment: flag.environment },
      }),
    {
      stale: [['flags', project.id]],
      onDone: () => go(`/projects/${project.id}/flags?environment=${flag.environment}`),
    },
  );
  return (
    <Confirm
      title={`Delete ${flag.key}?`}
      action="Delete the flag"
      onConfirm={() => remove.mutate(undefined)}
      onClose={onClose}
    >
      <p>
        In {flag.environment} only. Applications that ask for it get their own default from then on. Its versions are
        deleted, too; the archive keeps them.
      </p>
      <References flag={flag} />
      {remove.error && <Failure error={remove.error} />}
    </Confirm>
  );
};

const Heading = ({ flag, mayWrite }: { readonly flag: Flag; readonly mayWrite: boolean }) => {
  const { project } = useProject();
  const [opened, setOpened] = useState<'delete' | 'archive' | null>(null);
  const toggle = useChange(
    () =>
      call('POST /projects/{project_id}/flags/{key}/toggle', {
        params: { project_id: project.id, key: flag.key },
        query: { environment: flag.environment },
        headers: { 'if-match': `"${flag.version}"` },
        body: {},
      }),
    { stale: staleOf(project.id) },
  );
  const close = (): void => setOpened(null);
  const isOn = flag.is_enabled && !flag.is_archived;
  return (
    <>
      <div className="row">
        <h1>
          <bdi>{flag.key}</bdi>
        </h1>
        <span className={isOn ? 'good' : 'muted'}>{flag.is_archived ? 'archived' : isOn ? 'on' : 'off'}</span>
        {mayWrite && (
          <>
            {flag.is_archived ? (
              <Unarchive flag={flag} />
            ) : (
              <>
                <button type="button" disabled={toggle.isPending} onClick={() => toggle.mutate(undefined)}>
                  Turn {flag.is_enabled ? 'off' : 'on'}
                </button>
                <button type="button" onClick={() => setOpened('archive')}>
                  Archive
                </button>
              </>
            )}
            <button type="button" onClick={() => setOpened('delete')}>
              Delete
            </button>
          </>
        )}
      </div>
      <p className="muted">
        {flag.flag_type} · {flag.environment} · version {flag.version}
        {!mayWrite && ' · Flags are changed by developers, admins and owners.'}
      </p>
      {toggle.error && <Failure error={toggle.error} />}
      {opened === 'delete' && <Delete flag={flag} onClose={close} />}
      {opened === 'archive' && <Archive flag={flag} onClose={close} />}
    </>
  );
};

/** One flag in one environment: its rules, and what it answers. */
export const FlagPage = ({ name: key }: { readonly name: string }) => {
  const { project, role } = useProject();
  const [search] = useSearch();
  const environment = search.get('environment') ?? defaultEnvironment;
  const flag = useFlag(key, environment);
  const mayWrite = atLeast(role, 'developer');
  return (
    <>
      <p>
        <Link href={`/projects/${project.id}/flags?environment=${environment}`}>All flags of {environment}</Link>
      </p>
      {flag.error && <Failure error={flag.error} onRetry={() => void flag.refetch()} />}
      {flag.data !== undefined && (
        <>
          <Heading key={`heading ${environment} ${key}`} flag={flag.data} mayWrite={mayWrite} />
          {flag.data.is_archived ? (
            <Kept flag={flag.data} />
          ) : (
            <Editing key={`${environment} ${key}`} flag={flag.data} mayWrite={mayWrite} />
          )}
        </>
      )}
    </>
  );
};
