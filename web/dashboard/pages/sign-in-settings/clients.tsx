import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call, send } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import { useSearch } from '../../client/search.ts';
import { whenOf } from '../../client/when.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';
import {
  type Client,
  DeleteClient,
  EditClient,
  type MadeClient,
  NewClient,
  RollSecret,
  RotateKeys,
  ShowSecret,
  kinds,
} from './client-dialogs.tsx';

const pageSize = 50;

type Opened =
  | { readonly kind: 'new' }
  | { readonly kind: 'edit' | 'roll' | 'delete'; readonly of: Client }
  | { readonly kind: 'show'; readonly of: MadeClient };

interface RowProps {
  readonly of: Client;
  readonly mayWrite: boolean;
  readonly onOpen: (opened: Opened) => void;
}

const ClientRow = ({ of, mayWrite, onOpen }: RowProps) => (
  <tr>
    <td>
      <bdi>{of.name}</bdi>
    </td>
    <td title={kinds[of.application_type]}>{of.application_type}</td>
    <td>
      <code>{of.client_id}</code>
    </td>
    <td>
      {of.redirect_uris.map((uri) => (
        <div key={uri}>
          <bdi>{uri}</bdi>
        </div>
      ))}
    </td>
    <td>{whenOf(of.created_at)}</td>
    {mayWrite && (
      <td>
        <span className="row">
          <button type="button" aria-label={`Change ${of.name}`} onClick={() => onOpen({ kind: 'edit', of })}>
            Change
          </button>
          {of.application_type === 'web' && (
            <button type="button" aria-label={`New secret of ${of.name}`} onClick={() => onOpen({ kind: 'roll', of })}>
              New secret
            </button>
          )}
          <button type="button" aria-label={`Delete ${of.name}`} onClick={() => onOpen({ kind: 'delete', of })}>
            Delete
          </button>
        </span>
      </td>
    )}
  </tr>
);

const Opened = ({ opened, onOpen }: { readonly opened: Opened; readonly onOpen: (next: Opened | null) => void }) => {
  const close = (): void => onOpen(null);
  const show = (of: MadeClient): void => onOpen({ kind: 'show', of });
  switch (opened.kind) {
    case 'new':
      return <NewClient onMade={show} onClose={close} />;
    case 'edit':
      return <EditClient of={opened.of} onClose={close} />;
    case 'roll':
      return <RollSecret of={opened.of} onMade={show} onClose={close} />;
    case 'delete':
      return <DeleteClient of={opened.of} onClose={close} />;
    case 'show':
      return <ShowSecret of={opened.of} onClose={close} />;
  }
};

/** The address that OpenID clients are given. */
const Issuer = () => {
  const { project } = useProject();
  const issuer = useQuery({
    queryKey: ['issuer', project.id],
    queryFn: async () => {
      const { body } = await send(`/oauth/${project.id}/.well-known/openid-configuration`, {});
      return body as { readonly issuer: string };
    },
  });
  if (issuer.error) return <Failure error={issuer.error} />;
  return issuer.data === undefined ? null : <Copyable label="Issuer" text={issuer.data.issuer} />;
};

/** The clients of the project's OpenID provider. */
export const Clients = ({ mayWrite }: { readonly mayWrite: boolean }) => {
  const { project } = useProject();
  const [search, setSearch] = useSearch();
  const [opened, setOpened] = useState<Opened | null>(null);
  const offset = Number(search.get('offset') ?? 0) || 0;
  const clients = useQuery({
    queryKey: ['oauth-clients', project.id, offset],
    queryFn: () =>
      call('GET /projects/{project_id}/oauth/clients', {
        params: { project_id: project.id },
        query: { limit: pageSize, offset },
      }),
  });
  const move = (to: number): void =>
    setSearch((now) => {
      now.set('offset', String(to));
      return now;
    });
  const all = clients.data?.clients ?? [];
  return (
    <section>
      <div className="row">
        <h2>Clients</h2>
        {mayWrite && (
          <button type="button" onClick={() => setOpened({ kind: 'new' })}>
            New client
          </button>
        )}
      </div>
      <p className="muted">
        The project is an OpenID provider: other programs send its users to its hosted pages to sign in.
      </p>
      <Issuer />
      {clients.error && <Failure error={clients.error} onRetry={() => void clients.refetch()} />}
      {clients.data !== undefined && all.length === 0 && <p className="empty">There are no clients.</p>}
      {all.length > 0 && (
        <Table
          caption="Clients"
          isCaptionHidden
          columns={['Name', 'Kind', 'Client id', 'Redirects', 'Since', ...(mayWrite ? ['Change'] : [])]}
        >
          {all.map((of) => (
            <ClientRow key={of.client_id} of={of} mayWrite={mayWrite} onOpen={setOpened} />
          ))}
        </Table>
      )}
      <Pager label="clients" offset={offset} limit={pageSize} total={clients.data?.total ?? 0} onMove={move} />
      {opened !== null && <Opened opened={opened} onOpen={setOpened} />}
    </section>
  );
};

const algorithms = {
  RS256: 'RSA with SHA-256',
  ES256: 'ECDSA on P-256 with SHA-256',
} as const;

/** The keys that the project's tokens are signed with. */
export const SigningKeys = ({ mayWrite }: { readonly mayWrite: boolean }) => {
  const { project } = useProject();
  const [isOpen, setOpen] = useState(false);
  const keys = useQuery({
    queryKey: ['signing-keys', project.id],
    queryFn: () => call('GET /projects/{project_id}/auth/keys', { params: { project_id: project.id } }),
  });
  const all = keys.data?.keys ?? [];
  return (
    <section>
      <div className="row">
        <h2>Signing keys</h2>
        {mayWrite && (
          <button type="button" onClick={() => setOpen(true)}>
            Rotate the keys
          </button>
        )}
      </div>
      <p className="muted">
        There is a key of each algorithm. Access tokens are signed with RS256, id tokens with that of their client.
        Programs find the public parts by their ids.
      </p>
      <Copyable label="Public keys" text={`${project.rest_url}/auth/v1/.well-known/jwks.json`} />
      {keys.error && <Failure error={keys.error} onRetry={() => void keys.refetch()} />}
      {keys.data !== undefined && all.length === 0 && (
        <p className="empty">There are no keys yet: they are made with the first token.</p>
      )}
      {all.length > 0 && (
        <Table caption="Signing keys" isCaptionHidden columns={['Id', 'Algorithm', 'Since', 'State']}>
          {all.map((key) => (
            <tr key={key.id}>
              <td>
                <code>{key.id}</code>
              </td>
              <td title={algorithms[key.alg]}>{key.alg}</td>
              <td>{whenOf(key.created_at)}</td>
              <td className={key.expires_at === null ? 'good' : 'muted'}>
                {key.expires_at === null ? 'signs' : `verifies until ${whenOf(key.expires_at)}`}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {isOpen && <RotateKeys onClose={() => setOpen(false)} />}
    </section>
  );
};
