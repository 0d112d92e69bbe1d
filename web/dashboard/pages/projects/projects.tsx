import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { copyText } from '../../client/clipboard.ts';
import { fieldOf } from '../../client/form.ts';
import { Copyable } from '../../components/copyable.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { OrgList } from '../orgs/org-list.tsx';
import { Examples } from './examples.tsx';

interface NewKeys {
  readonly name: string;
  readonly rest_url: string;
  readonly api_key?: string;
  readonly publishable_key?: string;
}

/** The two keys of a new project, which are shown once. */
const Keys = ({ keys, onClose }: { readonly keys: NewKeys; readonly onClose: () => void }) => {
  const env = `PLINTH_URL=${keys.rest_url}\nPLINTH_SECRET_KEY=${keys.api_key ?? ''}\nPLINTH_PUBLISHABLE_KEY=${keys.publishable_key ?? ''}`;
  return (
    <Dialog title={`The keys of ${keys.name}`} onClose={onClose}>
      <p>These two keys are shown once. The secret key is the project itself: it belongs on servers only.</p>
      <Copyable label="Secret key" text={keys.api_key ?? ''} />
      <Copyable label="Publishable key" text={keys.publishable_key ?? ''} />
      <p>For a file named .env:</p>
      <pre>{env}</pre>
      <p className="row end">
        <button type="button" onClick={() => void copyText(env)}>
          Copy .env
        </button>
        <button type="button" className="primary" onClick={onClose}>
          I have saved them
        </button>
      </p>
    </Dialog>
  );
};

const NewProject = ({
  onMade,
  onClose,
}: {
  readonly onMade: (keys: NewKeys) => void;
  readonly onClose: () => void;
}) => {
  const orgs = useQuery({ queryKey: ['orgs'], queryFn: () => call('GET /team/orgs', {}) });
  const make = useMutation({
    mutationFn: (body: { name: string; org_id: string }) => call('POST /projects', { body }),
    onSuccess: (made) => (made?.rest_url === undefined ? onClose() : onMade(made)),
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    make.mutate({ name: fieldOf(form, 'name'), org_id: fieldOf(form, 'org') });
  };
  const mine = (orgs.data ?? []).filter(({ role }) => role !== 'viewer');
  return (
    <Dialog title="New project" onClose={onClose}>
      <form onSubmit={submit}>
        <label>
          Name
          <input name="name" required maxLength={100} />
        </label>
        <label>
          Organization
          <select name="org" required>
            {mine.map(({ org_id: id, org_name: name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        </label>
        {make.error && <Failure error={make.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={make.isPending || mine.length === 0}>
            {make.isPending ? 'Making its database…' : 'Create the project'}
          </button>
        </p>
      </form>
    </Dialog>
  );
};

/** All projects of all organizations that somebody is a member of. */
export const ProjectsPage = () => {
  const queries = useQueryClient();
  const [dialog, setDialog] = useState<'new' | NewKeys | null>(null);
  const [hasExamples, setExamples] = useState(false);
  const projects = useQuery({
    queryKey: ['projects'],
    queryFn: () => call('GET /projects', { query: { limit: 200 } }),
  });
  const made = (keys: NewKeys): void => {
    void queries.invalidateQueries({ queryKey: ['projects'] });
    setDialog(keys);
  };
  return (
    <main id="content">
      <div className="row head">
        <h1>Projects</h1>
        <button type="button" className="primary" onClick={() => setDialog('new')}>
          New project
        </button>
      </div>
      {projects.error && <Failure error={projects.error} onRetry={() => void projects.refetch()} />}
      {projects.data?.total === 0 && (
        <>
          <p className="empty">
            No project yet. A project has a database of its own, an API for its tables, and functions.
          </p>
          <h2>Begin with one that works</h2>
          <Examples />
        </>
      )}
      <ul className="cards">
        {projects.data?.projects.map(({ id, name, slug, plan, status }) => (
          <li key={id}>
            <Link href={`/projects/${id}`}>
              <strong>{name}</strong>
              <span className="muted">{slug}</span>
              <span className="row">
                <span className="tag">{plan}</span>
                <span className={status === 'active' ? 'tag good' : 'tag warn'}>{status}</span>
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {(projects.data?.total ?? 0) > 0 && (
        <details className="more-examples" onToggle={({ currentTarget }) => setExamples(currentTarget.open)}>
          <summary>Begin with an example</summary>
          {hasExamples && <Examples />}
        </details>
      )}
      <OrgList />
      {dialog === 'new' && <NewProject onMade={made} onClose={() => setDialog(null)} />}
      {dialog !== null && dialog !== 'new' && <Keys keys={dialog} onClose={() => setDialog(null)} />}
    </main>
  );
};
