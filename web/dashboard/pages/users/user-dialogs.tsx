import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import { whenOf } from '../../client/when.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Confirm, Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import type { WholeUser } from './user-state.ts';

/** Something that the team does with a user. */
export type UserAct =
  | { readonly kind: 'sign-in-as' | 'reset' | 'ban' | 'unban' | 'delete' | 'sign-out' }
  | { readonly kind: 'factor'; readonly id: string; readonly name: string };

interface ActProps {
  readonly user: WholeUser;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

const day = 86_400_000;
const bans: readonly (readonly [label: string, days: number])[] = [
  ['for a day', 1],
  ['for a week', 7],
  ['for 30 days', 30],
  ['for a year', 365],
  ['for good', 36_500],
];

const useParams = (user: WholeUser) => ({ project_id: useProject().project.id, uid: user.id });

const useStale = (user: WholeUser) => {
  const { project } = useProject();
  return [
    ['user', project.id, user.id],
    ['users', project.id],
    ['user-sessions', project.id, user.id],
  ];
};

const Ban = ({ user, onDone, onClose }: ActProps) => {
  const params = useParams(user);
  const ban = useChange(
    (days: number) =>
      call('POST /projects/{project_id}/users/{uid}/ban', {
        params,
        body: { until: new Date(Date.now() + days * day).toISOString() },
      }),
    { stale: useStale(user), onDone },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    ban.mutate(Number(fieldOf(event.currentTarget, 'days')));
  };
  return (
    <Dialog title="Ban the user" onClose={onClose}>
      <form onSubmit={submit}>
        <p>All sign-ins of the user end at once, and nobody signs in as the user meanwhile.</p>
        <label>
          For how long
          <select name="days" defaultValue={7}>
            {bans.map(([label, days]) => (
              <option key={days} value={days}>
                {label}
              </option>
            ))}
          </select>
        </label>
        {ban.error && <Failure error={ban.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="danger" disabled={ban.isPending}>
            Ban
          </button>
        </p>
      </form>
    </Dialog>
  );
};

const SignInAs = ({ user, onClose }: Omit<ActProps, 'onDone'>) => {
  const params = useParams(user);
  const begin = useChange(() => call('POST /projects/{project_id}/users/{uid}/sign-in-as', { params, body: {} }), {
    stale: useStale(user),
  });
  const session = begin.data;
  return (
    <Dialog title="Sign in as this user" onClose={onClose}>
      {session === undefined ? (
        <>
          <p>
            You act as <bdi>{user.email ?? user.id}</bdi> for 30 minutes, with all that the user may see and change but
            for the password, the address and the factors. The audit log says that it was you.
          </p>
          {begin.error && <Failure error={begin.error} />}
        </>
      ) : (
        <>
          <p>It ends at {whenOf(new Date(session.expires_at * 1000).toISOString())}.</p>
          {session.url === null || session.url === undefined ? (
            <p className="muted">
              The settings of sign-in name no site, so there is no address to open. Use the token as a Bearer token.
            </p>
          ) : (
            <p>
              <a href={session.url} target="_blank" rel="noreferrer">
                Open the application as this user
              </a>{' '}
              <span className="muted">Best in a private window: your own sign-in there is replaced.</span>
            </p>
          )}
          <Copyable label="Token" text={session.access_token ?? ''} />
        </>
      )}
      <p className="row end">
        <button type="button" onClick={onClose}>
          {session === undefined ? 'Cancel' : 'Close'}
        </button>
        {session === undefined && (
          <button type="button" className="primary" disabled={begin.isPending} onClick={() => begin.mutate(undefined)}>
            Sign in for 30 minutes
          </button>
        )}
      </p>
    </Dialog>
  );
};

const ResetLink = ({ user, onClose }: Omit<ActProps, 'onDone'>) => {
  const params = useParams(user);
  const make = useChange(() => call('POST /projects/{project_id}/users/{uid}/reset-link', { params, body: {} }), {
    stale: [],
  });
  return (
    <Dialog title="Link for a new password" onClose={onClose}>
      {make.data === undefined ? (
        <p>
          Whoever has the link sets a new password for <bdi>{user.email}</bdi>. It works once, for half an hour, and
          replaces an earlier one. Nothing is mailed: hand it over yourself.
        </p>
      ) : (
        <Copyable label="Link" text={make.data.url ?? ''} />
      )}
      {make.error && <Failure error={make.error} />}
      <p className="row end">
        <button type="button" onClick={onClose}>
          {make.data === undefined ? 'Cancel' : 'Close'}
        </button>
        {make.data === undefined && (
          <button type="button" className="primary" disabled={make.isPending} onClick={() => make.mutate(undefined)}>
            Make the link
          </button>
        )}
      </p>
    </Dialog>
  );
};

interface Question {
  readonly title: string;
  readonly action: string;
  readonly text: string;
}

const questions: Readonly<Record<'unban' | 'delete' | 'sign-out' | 'factor', Question>> = {
  unban: { title: 'End the ban?', action: 'End the ban', text: 'The user may sign in again.' },
  delete: {
    title: 'Delete the user?',
    action: 'Delete the user',
    text: 'Identities, factors and sign-ins are deleted, and every row of your tables that refers to the user on delete cascade. This cannot be undone.',
  },
  'sign-out': {
    title: 'Sign the user out everywhere?',
    action: 'Sign out',
    text: 'Every browser and device of the user has to sign in again.',
  },
  factor: {
    title: 'Remove the second factor?',
    action: 'Remove the factor',
    text: 'From then on the user signs in without it. Make sure that it is the user who asks.',
  },
};

const needsQuestion = (kind: UserAct['kind']): kind is keyof typeof questions => Object.hasOwn(questions, kind);

const Ask = ({ user, act, onDone, onClose }: ActProps & { readonly act: UserAct }) => {
  const params = useParams(user);
  const work = useChange(
    (): Promise<unknown> => {
      if (act.kind === 'delete') return call('DELETE /projects/{project_id}/users/{uid}', { params });
      if (act.kind === 'unban') return call('POST /projects/{project_id}/users/{uid}/unban', { params, body: {} });
      if (act.kind !== 'factor') return call('DELETE /projects/{project_id}/users/{uid}/sessions', { params });
      return call('DELETE /projects/{project_id}/users/{uid}/factors/{factor_id}', {
        params: { ...params, factor_id: act.id },
      });
    },
    { stale: useStale(user).slice(act.kind === 'delete' ? 1 : 0), onDone },
  );
  if (!needsQuestion(act.kind)) return null;
  const { title, action, text } = questions[act.kind];
  return (
    <Confirm title={title} action={action} onConfirm={() => work.mutate(undefined)} onClose={onClose}>
      <p>
        <bdi>{user.email ?? user.id}</bdi>
      </p>
      <p>{text}</p>
      {work.error && <Failure error={work.error} />}
    </Confirm>
  );
};

interface UserDialogsProps {
  readonly user: WholeUser;
  readonly act: UserAct;
  readonly onDone: (kind: UserAct['kind']) => void;
  readonly onClose: () => void;
}

/** The dialog of what is about to be done with a user. */
export const UserDialogs = ({ user, act, onDone, onClose }: UserDialogsProps) => {
  // The state lives until the dialog closes, also when the user is read again meanwhile.
  const [first] = useState(user);
  const shared = { user: first, onDone: () => onDone(act.kind), onClose };
  if (act.kind === 'ban') return <Ban {...shared} />;
  if (act.kind === 'sign-in-as') return <SignInAs {...shared} />;
  if (act.kind === 'reset') return <ResetLink {...shared} />;
  return <Ask {...shared} act={act} />;
};
