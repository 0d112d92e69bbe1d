import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useRef, useState } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Conflict } from '../../components/conflict.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Field } from '../../components/field.tsx';
import { Table } from '../../components/table.tsx';
import { type Settings, comparable, useSettingsEdit } from './auth-settings.ts';

type Functions = Operations['GET /projects/{project_id}/functions']['answer']['functions'];
type Outcome = Operations['POST /projects/{project_id}/auth/settings/claims/test']['answer'];

const maxFunctions = 200;

const useFunctions = () => {
  const { project } = useProject();
  return useQuery({
    queryKey: ['functions', project.id, 'for-claims'],
    queryFn: () =>
      call('GET /projects/{project_id}/functions', {
        params: { project_id: project.id },
        query: { limit: maxFunctions },
      }),
  });
};

interface ChooseProps {
  readonly settings: Settings;
  readonly functions: Functions;
  readonly onClose: () => void;
}

const Choose = ({ settings, functions, onClose }: ChooseProps) => {
  const form = useRef<HTMLFormElement>(null);
  const edit = useSettingsEdit(settings, onClose);
  const chosen = edit.base.custom_claims_function_id;
  const changeOf = () => ({
    custom_claims_function_id: (form.current && fieldOf(form.current, 'function')) || null,
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    edit.save(changeOf());
  };
  return (
    <Dialog title="Function for claims" onClose={onClose}>
      <form ref={form} onSubmit={submit}>
        <Field label="Function" at="custom_claims_function_id" error={edit.error}>
          {(given) => (
            <select {...given} name="function" defaultValue={chosen ?? ''} key={chosen}>
              <option value="">none: tokens have the usual claims</option>
              {functions.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
              {chosen !== null && !functions.some(({ id }) => id === chosen) && (
                <option value={chosen}>{chosen}, which was deleted</option>
              )}
            </select>
          )}
        </Field>
        <p className="muted">Try it against a user first: a function that fails keeps every user from signing in.</p>
        {edit.error && <Failure error={edit.error} fields={['custom_claims_function_id']} />}
        {edit.theirs !== null && (
          <Conflict
            what="The settings were"
            before={comparable(edit.base)}
            now={comparable(edit.theirs)}
            onKeep={() => edit.saveOver(changeOf())}
            onTake={edit.takeTheirs}
          />
        )}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={edit.isPending}>
            Save the function
          </button>
        </p>
      </form>
    </Dialog>
  );
};

const shown = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));

const Claims = ({ outcome }: { readonly outcome: Outcome }) => (
  <div role="status">
    {outcome.error !== null && (
      <p className="bad">
        The sign-in would be refused after {outcome.duration_ms} ms: {outcome.error}
      </p>
    )}
    {outcome.claims !== null && (
      <>
        <p>
          The sign-in would go on after {outcome.duration_ms} ms.
          {outcome.ignored.length > 0 &&
            ` Only the platform sets ${outcome.ignored.join(', ')}: these stay as they are.`}
        </p>
        <Table caption="Claims of the access token" columns={['Claim', 'Value']}>
          {Object.entries(outcome.claims).map(([name, value]) => (
            <tr key={name}>
              <th scope="row">
                <bdi>{name}</bdi>
              </th>
              <td>
                <code className="claim">{shown(value)}</code>
              </td>
            </tr>
          ))}
        </Table>
      </>
    )}
  </div>
);

/** Tries the function on a user, who is found by an id, an address or the beginning of one. */
const useTrial = () => {
  const { project } = useProject();
  const params = { project_id: project.id };
  return useMutation({
    mutationFn: async ({ functionId, q }: { readonly functionId: string; readonly q: string }) => {
      const { users } = await call('GET /projects/{project_id}/users', { params, query: { q, limit: 2 } });
      const [user, other] = users;
      if (user === undefined) throw new Error('Nobody has this address or id.');
      if (other !== undefined && user.email !== q.toLowerCase())
        throw new Error('Several users have an address that begins like this. Write the whole address.');
      return call('POST /projects/{project_id}/auth/settings/claims/test', {
        params,
        body: { function_id: functionId, user_id: user.id },
      });
    },
  });
};

interface TryProps {
  readonly chosen: string | null;
  readonly functions: Functions;
}

const Try = ({ chosen, functions }: TryProps) => {
  const trial = useTrial();
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    trial.mutate({ functionId: fieldOf(form, 'tried'), q: fieldOf(form, 'user').trim() });
  };
  return (
    <>
      <h3>Try a function</h3>
      <form className="row" onSubmit={submit}>
        <label className="inline">
          Function
          <select name="tried" defaultValue={chosen ?? functions[0]?.id} key={chosen}>
            {functions.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label className="inline">
          Address or id of a user
          <input name="user" required maxLength={320} placeholder="ada@example.com" autoComplete="off" />
        </label>
        <button type="submit" disabled={trial.isPending}>
          {trial.isPending ? 'Running…' : 'Try it'}
        </button>
      </form>
      {trial.error && <Failure error={trial.error} />}
      {trial.data !== undefined && <Claims outcome={trial.data} />}
    </>
  );
};

interface CustomClaimsProps {
  readonly settings: Settings;
  readonly mayWrite: boolean;
}

/** The function of the project that changes the claims of access tokens. */
export const CustomClaims = ({ settings, mayWrite }: CustomClaimsProps) => {
  const { project, role } = useProject();
  const [isOpen, setOpen] = useState(false);
  const functions = useFunctions();
  const all = functions.data?.functions ?? [];
  const chosen = settings.custom_claims_function_id;
  const name = all.find(({ id }) => id === chosen)?.name;
  return (
    <section aria-label="Custom claims">
      <div className="row">
        <h2>Custom claims</h2>
        {mayWrite && functions.data !== undefined && (
          <button type="button" onClick={() => setOpen(true)}>
            Choose the function
          </button>
        )}
      </div>
      {functions.error && <Failure error={functions.error} onRetry={() => void functions.refetch()} />}
      {chosen === null ? (
        <p className="empty">No function changes the claims of tokens.</p>
      ) : (
        <p>
          <Link href={`/projects/${project.id}/functions/${chosen}`}>
            <bdi>{name ?? chosen}</bdi>
          </Link>{' '}
          changes the claims of each access token.
          {functions.data !== undefined && name === undefined && (
            <span className="bad"> It is not there any more: nobody can sign in.</span>
          )}
        </p>
      )}
      <p className="muted">
        It gets <code>{'{user, claims}'}</code> at each sign-in and each renewal of a token, and answers{' '}
        <code>{'{claims}'}</code> within 2 seconds. When it fails, takes longer or answers something else, the sign-in
        is refused with 422. What says who somebody is (<code>sub</code>, <code>role</code>, <code>aal</code> and the
        like) stays as the platform has set it. Each run counts as one of the function’s.
      </p>
      {atLeast(role, 'developer') && all.length > 0 && <Try chosen={chosen} functions={all} />}
      {functions.data !== undefined && all.length === 0 && (
        <p className="muted">
          There is no function yet. <Link href={`/projects/${project.id}/functions`}>Make one</Link> that returns{' '}
          <code>{'{ claims: { ...claims, plan: user.app_metadata.plan } }'}</code>.
        </p>
      )}
      {isOpen && <Choose settings={settings} functions={all} onClose={() => setOpen(false)} />}
    </section>
  );
};
