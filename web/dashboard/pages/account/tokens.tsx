import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf } from '../../client/form.ts';
import type { Operations } from '../../client/types.ts';
import { whenOf } from '../../client/when.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Confirm, Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';

type Token = Operations['GET /auth/tokens']['answer']['tokens'][number];
type Body = Operations['POST /auth/tokens']['body'];

const pageSize = 20;
const day = 86_400_000;
const stale = [['my-tokens']];

const scopes = {
  read: 'looks at what a viewer may see',
  write: 'does what a developer may do',
  admin: 'does all that you may do',
} as const;

const lifetimes: readonly (readonly [label: string, days: number])[] = [
  ['7 days', 7],
  ['30 days', 30],
  ['90 days', 90],
  ['a year', 365],
  ['no end', 0],
];

const bodyOf = (form: HTMLFormElement): Body => {
  const days = Number(fieldOf(form, 'days'));
  const given = (Object.keys(scopes) as (keyof typeof scopes)[]).filter((scope) => fieldOf(form, scope) === 'on');
  const org = fieldOf(form, 'org');
  return {
    name: fieldOf(form, 'name'),
    scopes: given,
    org_id: org === '' ? null : org,
    expires_at: days === 0 ? null : new Date(Date.now() + days * day).toISOString(),
  };
};

const NewToken = ({ onMade, onClose }: { readonly onMade: (token: string) => void; readonly onClose: () => void }) => {
  const orgs = useQuery({ queryKey: ['orgs'], queryFn: () => call('GET /team/orgs', {}) });
  const make = useChange((body: Body) => call('POST /auth/tokens', { body }), {
    stale,
    onDone: ({ token = '' }) => onMade(token),
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    make.mutate(bodyOf(event.currentTarget));
  };
  return (
    <Dialog title="New access token" onClose={onClose}>
      <form onSubmit={submit}>
        <label>
          Name, such as the machine that gets it
          <input name="name" required maxLength={100} autoComplete="off" />
        </label>
        <fieldset>
          <legend>What it may do, at most</legend>
          {Object.entries(scopes).map(([scope, words]) => (
            <label key={scope} className="inline spaced">
              <input type="checkbox" name={scope} defaultChecked={scope !== 'admin'} />
              {scope}: {words}
            </label>
          ))}
        </fieldset>
        <label>
          Organization
          <select name="org">
            <option value="">all of mine</option>
            {orgs.data?.map(({ org_id: id, org_name: name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          It works for
          <select name="days" defaultValue={90}>
            {lifetimes.map(([label, days]) => (
              <option key={days} value={days}>
                {label}
              </option>
            ))}
          </select>
        </label>
        {make.error && <Failure error={make.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={make.isPending}>
            Create the token
          </button>
        </p>
      </form>
    </Dialog>
  );
};

/** Personal access tokens, for programs that act as their owner. */
export const Tokens = () => {
  const [offset, setOffset] = useState(0);
  const [isNew, setNew] = useState(false);
  const [made, setMade] = useState<string | null>(null);
  const [revoking, setRevoking] = useState<Token | null>(null);
  const tokens = useQuery({
    queryKey: ['my-tokens', offset],
    queryFn: () => call('GET /auth/tokens', { query: { limit: pageSize, offset } }),
  });
  const revoke = useChange((id: string) => call('DELETE /auth/tokens/{id}', { params: { id } }), {
    stale,
    onDone: () => setRevoking(null),
  });
  const all = tokens.data?.tokens ?? [];
  return (
    <>
      <div className="row">
        <h2>Access tokens</h2>
        <button type="button" onClick={() => setNew(true)}>
          New token
        </button>
      </div>
      <p className="muted">
        For the command line and for build servers: whoever has one acts as you, within its scope.
      </p>
      {tokens.error && <Failure error={tokens.error} />}
      {all.length > 0 && (
        <Table
          caption="Access tokens"
          isCaptionHidden
          columns={['Name', 'Token', 'Scope', 'Last used', 'Expires', 'Revoke']}
        >
          {all.map((token) => (
            <tr key={token.id}>
              <td>
                <bdi>{token.name}</bdi>
              </td>
              <td>
                <code>…{token.last_four}</code>
              </td>
              <td>{token.scopes.join(', ')}</td>
              <td>{whenOf(token.last_used_at)}</td>
              <td>{token.expires_at === null ? 'never' : whenOf(token.expires_at)}</td>
              <td>
                <button type="button" aria-label={`Revoke ${token.name}`} onClick={() => setRevoking(token)}>
                  Revoke
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Pager label="tokens" offset={offset} limit={pageSize} total={tokens.data?.total ?? 0} onMove={setOffset} />
      {isNew && (
        <NewToken
          onMade={(token) => {
            setNew(false);
            setMade(token);
          }}
          onClose={() => setNew(false)}
        />
      )}
      {made !== null && (
        <Dialog title="The new token" onClose={() => setMade(null)}>
          <p>It is shown once.</p>
          <Copyable label="Token" text={made} />
          <p>For the command line:</p>
          <pre>{`export PLINTH_ACCESS_TOKEN=${made}`}</pre>
          <p className="row end">
            <button type="button" className="primary" onClick={() => setMade(null)}>
              I have saved it
            </button>
          </p>
        </Dialog>
      )}
      {revoking !== null && (
        <Confirm
          title={`Revoke ${revoking.name}?`}
          action="Revoke the token"
          onConfirm={() => revoke.mutate(revoking.id)}
          onClose={() => setRevoking(null)}
        >
          <p>Whatever uses it is refused at once. This cannot be undone.</p>
          {revoke.error && <Failure error={revoke.error} />}
        </Confirm>
      )}
    </>
  );
};
