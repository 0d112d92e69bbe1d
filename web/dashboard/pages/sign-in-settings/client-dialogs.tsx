import { type FormEvent, useRef, useState } from 'react';
import { call } from '../../client/api.ts';
import { useChange } from '../../client/change.ts';
import { fieldOf, linesOf } from '../../client/form.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { changedPart } from '../../client/changed-part.ts';
import { useVersioned } from '../../client/versioned.ts';
import { Conflict } from '../../components/conflict.tsx';
import { Copyable } from '../../components/copyable.tsx';
import { Confirm, Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { FaultAt, Field } from '../../components/field.tsx';
import { TypeName } from '../../components/type-name.tsx';

export type Client = Operations['GET /projects/{project_id}/oauth/clients']['answer']['clients'][number];
export type MadeClient = Operations['POST /projects/{project_id}/oauth/clients']['answer'];
type NewBody = Operations['POST /projects/{project_id}/oauth/clients']['body'];
type Grant = NonNullable<NewBody['grant_types']>[number];
type Scope = NonNullable<NewBody['scopes']>[number];
type Kind = NonNullable<NewBody['application_type']>;

export const kinds = {
  web: 'with a server that keeps a secret',
  spa: 'a page alone, without a secret',
  native: 'on a device, without a secret',
} as const satisfies Record<Kind, string>;

const grants = {
  authorization_code: 'users sign in (authorization code with PKCE)',
  refresh_token: 'tokens are renewed without a user (refresh token)',
  client_credentials: 'the server signs in as itself (client credentials)',
  'urn:ietf:params:oauth:grant-type:device_code': 'devices without a keyboard (device code)',
} as const satisfies Record<Grant, string>;

const scopes = ['openid', 'profile', 'email', 'offline_access'] as const satisfies readonly Scope[];

const metadataOf = (form: HTMLFormElement) => ({
  name: fieldOf(form, 'name'),
  redirect_uris: linesOf(fieldOf(form, 'redirects')),
  post_logout_redirect_uris: linesOf(fieldOf(form, 'logouts')),
  backchannel_logout_uri: fieldOf(form, 'backchannel') || null,
  grant_types: new FormData(form).getAll('grant') as Grant[],
  scopes: new FormData(form).getAll('scope') as Scope[],
  id_token_signed_response_alg: fieldOf(form, 'alg') as Client['id_token_signed_response_alg'],
});

type Metadata = ReturnType<typeof metadataOf>;

const usual: Omit<Client, 'client_id' | 'version' | 'created_at' | 'updated_at' | 'application_type'> = {
  name: '',
  redirect_uris: [],
  post_logout_redirect_uris: [],
  backchannel_logout_uri: null,
  grant_types: ['authorization_code', 'refresh_token'],
  scopes: ['openid', 'profile', 'email', 'offline_access'],
  id_token_signed_response_alg: 'RS256',
};

interface FieldsProps {
  readonly of: typeof usual;
  readonly error: unknown;
}

const placed = [
  'name',
  'redirect_uris',
  'post_logout_redirect_uris',
  'backchannel_logout_uri',
  'grant_types',
  'scopes',
  'application_type',
];

interface ChoicesProps {
  readonly legend: string;
  readonly name: string;
  readonly options: readonly (readonly [value: string, label: string])[];
  readonly chosen: readonly string[];
  readonly at: string;
  readonly error: unknown;
}

const Choices = ({ legend, name, options, chosen, at, error }: ChoicesProps) => (
  <fieldset className="choices">
    <legend>{legend}</legend>
    {options.map(([value, label]) => (
      <label key={value} className="inline spaced">
        <input type="checkbox" name={name} value={value} defaultChecked={chosen.includes(value)} />
        {label}
      </label>
    ))}
    <FaultAt at={at} error={error} />
  </fieldset>
);

const AddressFields = ({ of, error }: FieldsProps) => (
  <>
    <Field label="Where codes may be sent to, one address a line, compared as written" at="redirect_uris" error={error}>
      {(given) => (
        <textarea
          {...given}
          name="redirects"
          rows={3}
          spellCheck={false}
          defaultValue={of.redirect_uris.join('\n')}
          placeholder="https://app.example.com/callback"
        />
      )}
    </Field>
    <Field label="Where a sign-out may lead to, one address a line" at="post_logout_redirect_uris" error={error}>
      {(given) => (
        <textarea
          {...given}
          name="logouts"
          rows={2}
          spellCheck={false}
          defaultValue={of.post_logout_redirect_uris.join('\n')}
        />
      )}
    </Field>
    <Field
      label="Address that is told of each sign-out (back-channel logout); empty: none"
      at="backchannel_logout_uri"
      error={error}
    >
      {(given) => (
        <input
          {...given}
          name="backchannel"
          type="url"
          maxLength={2048}
          defaultValue={of.backchannel_logout_uri ?? ''}
        />
      )}
    </Field>
  </>
);

const Fields = ({ of, error }: FieldsProps) => (
  <>
    <Field label="Name, as users read it" at="name" error={error}>
      {(given) => <input {...given} name="name" required maxLength={100} defaultValue={of.name} autoComplete="off" />}
    </Field>
    <AddressFields of={of} error={error} />
    <Choices
      legend="What it may do"
      name="grant"
      options={Object.entries(grants)}
      chosen={of.grant_types}
      at="grant_types"
      error={error}
    />
    <Choices
      legend="Scopes that it may ask for"
      name="scope"
      options={scopes.map((scope) => [scope, scope])}
      chosen={of.scopes}
      at="scopes"
      error={error}
    />
    <Field label="Signature of id tokens" at="id_token_signed_response_alg" error={error}>
      {(given) => (
        <select {...given} name="alg" defaultValue={of.id_token_signed_response_alg}>
          <option>RS256</option>
          <option>ES256</option>
        </select>
      )}
    </Field>
  </>
);

interface Closing {
  readonly onClose: () => void;
}

/** Registers a client. */
export const NewClient = ({ onMade, onClose }: Closing & { readonly onMade: (made: MadeClient) => void }) => {
  const { project } = useProject();
  const make = useChange(
    (body: NewBody) => call('POST /projects/{project_id}/oauth/clients', { params: { project_id: project.id }, body }),
    { stale: [['oauth-clients', project.id]], onDone: onMade },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    make.mutate({ ...metadataOf(form), application_type: fieldOf(form, 'kind') as Kind });
  };
  return (
    <Dialog title="New client" onClose={onClose}>
      <form onSubmit={submit}>
        <Field label="Kind of application; it stays" at="application_type" error={make.error}>
          {(given) => (
            <select {...given} name="kind">
              {Object.entries(kinds).map(([kind, words]) => (
                <option key={kind} value={kind}>
                  {kind}: {words}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Fields of={usual} error={make.error} />
        {make.error && <Failure error={make.error} fields={placed} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={make.isPending}>
            Register the client
          </button>
        </p>
      </form>
    </Dialog>
  );
};

interface OfClient extends Closing {
  readonly of: Client;
}

const comparable = (client: Client): object => {
  const { version: _v, updated_at: _u, ...fields } = client;
  return fields;
};

/** Changes a client, but for its kind. */
export const EditClient = ({ of, onClose }: OfClient) => {
  const { project } = useProject();
  const params = { project_id: project.id, client_id: of.client_id };
  const form = useRef<HTMLFormElement>(null);
  const [epoch, setEpoch] = useState(0);
  const edit = useVersioned<Client, Partial<Metadata>>(of, {
    write: (body, version) =>
      call('PATCH /projects/{project_id}/oauth/clients/{client_id}', {
        params,
        headers: { 'if-match': `"${version}"` },
        body,
      }),
    read: () => call('GET /projects/{project_id}/oauth/clients/{client_id}', { params }),
    stale: [['oauth-clients', project.id]],
    onDone: onClose,
  });
  const changeOf = (): Partial<Metadata> =>
    form.current === null ? {} : changedPart(metadataOf(form.current), edit.base);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const change = changeOf();
    if (Object.keys(change).length === 0) onClose();
    else edit.save(change);
  };
  const takeTheirs = (): void => {
    edit.takeTheirs();
    setEpoch(epoch + 1);
  };
  return (
    <Dialog title={`Change ${of.name}`} onClose={onClose}>
      <form ref={form} onSubmit={submit}>
        <Fields key={epoch} of={edit.base} error={edit.error} />
        {edit.error && <Failure error={edit.error} fields={placed} />}
        {edit.theirs !== null && (
          <Conflict
            what="The client was"
            before={comparable(edit.base)}
            now={comparable(edit.theirs)}
            onKeep={() => edit.saveOver(changeOf())}
            onTake={takeTheirs}
          />
        )}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={edit.isPending}>
            Save the client
          </button>
        </p>
      </form>
    </Dialog>
  );
};

const hour = 3600;
const overlaps: readonly (readonly [label: string, seconds: number])[] = [
  ['for an hour', hour],
  ['for a day', 24 * hour],
  ['for 7 days', 7 * 24 * hour],
  ['for 30 days', 30 * 24 * hour],
  ['not at all: it has leaked', 0],
];

/** The choice of how long what is replaced goes on working. */
const Overlap = ({ label }: { readonly label: string }) => (
  <label>
    {label}
    <select name="overlap" defaultValue={24 * hour}>
      {overlaps.map(([words, seconds]) => (
        <option key={seconds} value={seconds}>
          {words}
        </option>
      ))}
    </select>
  </label>
);

/** Replaces the secret of a client. */
export const RollSecret = ({ of, onMade, onClose }: OfClient & { readonly onMade: (made: MadeClient) => void }) => {
  const { project } = useProject();
  const roll = useChange(
    (seconds: number) =>
      call('POST /projects/{project_id}/oauth/clients/{client_id}/secret', {
        params: { project_id: project.id, client_id: of.client_id },
        body: { overlap_seconds: seconds },
      }),
    { stale: [['oauth-clients', project.id]], onDone: onMade },
  );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    roll.mutate(Number(fieldOf(event.currentTarget, 'overlap')));
  };
  return (
    <Dialog title={`A new secret for ${of.name}`} onClose={onClose}>
      <form onSubmit={submit}>
        <Overlap label="The present secret goes on working" />
        {roll.error && <Failure error={roll.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={roll.isPending}>
            Make a new secret
          </button>
        </p>
      </form>
    </Dialog>
  );
};

/** Shows a secret, which appears once. */
export const ShowSecret = ({ of, onClose }: Closing & { readonly of: MadeClient }) => (
  <Dialog title={of.name} onClose={onClose}>
    <Copyable label="Client id" text={of.client_id} />
    {!of.client_secret ? (
      <p>It has no secret: what it does is proved by PKCE.</p>
    ) : (
      <>
        <Copyable label="Client secret" text={of.client_secret} />
        <p>
          <strong>The secret is shown this once.</strong> The platform keeps nothing that it could be read from.
        </p>
      </>
    )}
    <p className="row end">
      <button type="button" className="primary" onClick={onClose}>
        {!of.client_secret ? 'Close' : 'I have saved it'}
      </button>
    </p>
  </Dialog>
);

/** Deletes a client by its name. */
export const DeleteClient = ({ of, onClose }: OfClient) => {
  const { project } = useProject();
  const remove = useChange(
    () =>
      call('DELETE /projects/{project_id}/oauth/clients/{client_id}', {
        params: { project_id: project.id, client_id: of.client_id },
      }),
    { stale: [['oauth-clients', project.id]], onDone: onClose },
  );
  return (
    <TypeName
      title={`Delete ${of.name}?`}
      name={of.name}
      action="Delete the client"
      error={remove.error}
      busy={remove.isPending}
      onConfirm={() => remove.mutate(undefined)}
      onClose={onClose}
    >
      <p>Its tokens stop working, its users are signed out of it, and nobody signs in to it any more.</p>
    </TypeName>
  );
};

/** Replaces the keys that tokens are signed with. */
export const RotateKeys = ({ onClose }: Closing) => {
  const { project } = useProject();
  const form = useRef<HTMLFormElement>(null);
  const rotate = useChange(
    (seconds: number) =>
      call('POST /projects/{project_id}/auth/keys/rotate', {
        params: { project_id: project.id },
        body: { overlap_seconds: seconds },
      }),
    { stale: [['signing-keys', project.id]], onDone: onClose },
  );
  const confirm = (): void => {
    if (form.current !== null) rotate.mutate(Number(fieldOf(form.current, 'overlap')));
  };
  return (
    <Confirm title="Sign with new keys?" action="Rotate the keys" onConfirm={confirm} onClose={onClose}>
      <form ref={form} onSubmit={(event) => event.preventDefault()}>
        <p>
          New keys sign from now on. While the earlier ones still verify, tokens that they signed go on working. Without
          such a time every user is signed out at once.
        </p>
        <Overlap label="The present keys go on verifying" />
      </form>
      {rotate.error && <Failure error={rotate.error} />}
    </Confirm>
  );
};
