import type { FormEvent } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { useDraft } from '../../client/draft.ts';
import { useProject } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';
import type { WholeUser } from './user-state.ts';

type Json = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The API merges: names that are missing from the text are sent as null, which removes them. */
const changeOf = (before: Json, text: string): Json => {
  const after: unknown = JSON.parse(text);
  if (!isObject(after)) throw new Error('It must be an object, such as {"plan": "gold"}.');
  const removed = Object.keys(before).filter((name) => !Object.hasOwn(after, name));
  return { ...after, ...Object.fromEntries(removed.map((name) => [name, null])) };
};

const kinds = {
  user_metadata: 'User metadata: the user may change it, and tokens carry it',
  app_metadata: 'Application metadata: only the project changes it, and tokens carry it',
} as const;

const One = ({
  user,
  kind,
  mayWrite,
}: {
  readonly user: WholeUser;
  readonly kind: keyof typeof kinds;
  readonly mayWrite: boolean;
}) => {
  const { project } = useProject();
  const saved = JSON.stringify(user[kind], null, 2);
  const draft = useDraft(`${user.id}:${kind}`, saved);
  const save = useChange(
    async (text: string) =>
      call('PATCH /projects/{project_id}/users/{uid}', {
        params: { project_id: project.id, uid: user.id },
        body: { [kind]: changeOf(user[kind], text) },
      }),
    { stale: [['user', project.id, user.id]], onRead: draft.forgetSaved },
  );
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    save.mutate(draft.text);
  };
  if (!mayWrite)
    return (
      <>
        <h3>{kinds[kind]}</h3>
        <pre>{saved}</pre>
      </>
    );
  return (
    <form onSubmit={submit}>
      <label>
        {kinds[kind]}
        <textarea
          value={draft.text}
          rows={Math.min(16, Math.max(3, draft.text.split('\n').length))}
          spellCheck={false}
          onChange={({ target }) => draft.change(target.value)}
        />
      </label>
      {save.error && <Failure error={save.error} />}
      {draft.isChanged && (
        <p className="row">
          <button type="submit" className="primary" disabled={save.isPending}>
            Save
          </button>
          <button type="button" onClick={draft.forget}>
            Undo
          </button>
        </p>
      )}
    </form>
  );
};

/** Both kinds of metadata of a user, as JSON. */
export const Metadata = ({ user, mayWrite }: { readonly user: WholeUser; readonly mayWrite: boolean }) => (
  <>
    <h2>Metadata</h2>
    {(Object.keys(kinds) as (keyof typeof kinds)[]).map((kind) => (
      <One key={kind} user={user} kind={kind} mayWrite={mayWrite} />
    ))}
  </>
);
