import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { ApiError, call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { useDraft } from '../../client/draft.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Changes } from '../../components/changes.tsx';
import { Confirm } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Evaluation, useEvaluation } from './evaluation.tsx';
import { type Edited, type Flag, defaultEnvironment, editedOf, patchOf } from './flag-shapes.ts';
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
    () =>
      call('PATCH /projects/{project_id}/flags/{key}', {
        params: { project_id: project.id, key },
        query: { environment },
        headers: { 'if-match': `"${edited.version}"` },
        body: change,
      }),
    { stale: staleOf(project.id), onDone: giveUp },
  );
  const isConflict = save.error instanceof ApiError && save.error.status === 412;
  return (
    <>
      {isChanged && edited.version !== flag.version && (
        <div role="alert" className="failure">
          <p>The flag was changed by somebody else meanwhile: version {flag.version} is the present one.</p>
          <Changes
            caption="What they changed, and you"
            before={patchOf(saved)}
            after={change}
            names={['Theirs', 'Yours']}
          />
          <p className="row">
            <button type="button" onClick={() => draft.change(JSON.stringify({ ...edited, version: flag.version }))}>
              Keep mine
            </button>
            <button type="button" onClick={giveUp}>
              Take theirs
            </button>
          </p>
        </div>
      )}
      <div className="beside">
        <div className="fill">
          <FlagEditor
            key={`${epoch} ${flag.version}`}
            flag={flag}
            edited={edited}
            mayWrite={mayWrite}
            tried={tried}
            onChange={(next) => draft.change(JSON.stringify(next))}
          />
          {save.error && !isConflict && <Failure error={save.error} />}
          {isConflict && <p role="alert">Somebody else has changed the flag. Your changes are still here.</p>}
          {isChanged && (
            <p className="row sticky">
              <button
                type="button"
                className="primary"
                disabled={save.isPending}
                onClick={() => save.mutate(undefined)}
              >
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

const Heading = ({ flag, mayWrite }: { readonly flag: Flag; readonly mayWrite: boolean }) => {
  const { project } = useProject();
  const [, go] = useLocation();
  const [isDeleting, setDeleting] = useState(false);
  const params = { project_id: project.id, key: flag.key };
  const query = { environment: flag.environment };
  const list = `/projects/${project.id}/flags?environment=${flag.environment}`;
  const toggle = useChange(
    () =>
      call('POST /projects/{project_id}/flags/{key}/toggle', {
        params,
        query,
        headers: { 'if-match': `"${flag.version}"` },
        body: {},
      }),
    { stale: staleOf(project.id) },
  );
  const remove = useChange(() => call('DELETE /projects/{project_id}/flags/{key}', { params, query }), {
    stale: [['flags', project.id]],
    onDone: () => go(list),
  });
  return (
    <>
      <div className="row">
        <h1>
          <bdi>{flag.key}</bdi>
        </h1>
        <span className={flag.is_enabled ? 'good' : 'muted'}>{flag.is_enabled ? 'on' : 'off'}</span>
        {mayWrite && (
          <>
            <button type="button" disabled={toggle.isPending} onClick={() => toggle.mutate(undefined)}>
              Turn {flag.is_enabled ? 'off' : 'on'}
            </button>
            <button type="button" onClick={() => setDeleting(true)}>
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
      {isDeleting && (
        <Confirm
          title={`Delete ${flag.key}?`}
          action="Delete the flag"
          onConfirm={() => remove.mutate(undefined)}
          onClose={() => setDeleting(false)}
        >
          <p>
            In {flag.environment} only. Applications that ask for it get their own default from then on. Its versions
            are deleted, too; turn it off to keep them.
          </p>
          {remove.error && <Failure error={remove.error} />}
        </Confirm>
      )}
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
          <Heading flag={flag.data} mayWrite={mayWrite} />
          <Editing key={`${environment} ${key}`} flag={flag.data} mayWrite={mayWrite} />
        </>
      )}
    </>
  );
};
