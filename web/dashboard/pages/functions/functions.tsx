import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { Tabs, useTab } from '../../components/tabs.tsx';
import { Time } from '../../components/time.tsx';
import { Variables } from '../../components/variables.tsx';

type Language = 'javascript' | 'python';

const examples: Readonly<Record<Language, string>> = {
  javascript: `export const handler = async (payload, sdk) => {
  console.log('called with', payload);
  return { hello: payload?.name ?? 'world' };
};
`,
  python: `def handler(payload, sdk):
    print('called with', payload)
    return {'hello': (payload or {}).get('name', 'world')}
`,
};

const NewFunction = ({ onClose }: { readonly onClose: () => void }) => {
  const { project } = useProject();
  const [, go] = useLocation();
  const make = useMutation({
    mutationFn: ({ name, language }: { readonly name: string; readonly language: Language }) =>
      call('POST /projects/{project_id}/functions', {
        params: { project_id: project.id },
        body: { name, language, code: examples[language] },
      }),
    onSuccess: ({ id }) => go(`/projects/${project.id}/functions/${id}`),
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    make.mutate({
      name: fieldOf(form, 'name'),
      language: fieldOf(form, 'language') === 'python' ? 'python' : 'javascript',
    });
  };
  return (
    <Dialog title="New function" onClose={onClose}>
      <form onSubmit={submit}>
        <label>
          Name
          <input name="name" required maxLength={63} />
        </label>
        <label>
          Language
          <select name="language">
            <option value="javascript">JavaScript or TypeScript</option>
            <option value="python">Python</option>
          </select>
        </label>
        {make.error && <Failure error={make.error} />}
        <p className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={make.isPending}>
            Create the function
          </button>
        </p>
      </form>
    </Dialog>
  );
};

const tabs = { list: 'Functions', variables: 'Shared variables' } as const;

/** Variables that all functions of the project share. */
const SharedVariables = () => {
  const { project, role } = useProject();
  const queries = useQueryClient();
  const params = { project_id: project.id };
  const env = useQuery({
    queryKey: ['env', project.id],
    queryFn: () => call('GET /projects/{project_id}/env', { params }),
  });
  const change = async (env_vars: Readonly<Record<string, string | null>>): Promise<void> => {
    await call('PATCH /projects/{project_id}/env', { params, body: { env_vars } });
    await queries.invalidateQueries({ queryKey: ['env', project.id] });
  };
  return (
    <>
      <p className="muted">Every function of the project has them; one of its own goes before one of that name here.</p>
      {env.error && <Failure error={env.error} onRetry={() => void env.refetch()} />}
      {env.data && (
        <Variables
          label="Shared variables"
          names={Object.keys(env.data.env_vars).toSorted()}
          mayChange={atLeast(role, 'developer')}
          onChange={change}
        />
      )}
    </>
  );
};

const FunctionList = () => {
  const { project, role } = useProject();
  const [isNew, setNew] = useState(false);
  const functions = useQuery({
    queryKey: ['functions', project.id],
    queryFn: () =>
      call('GET /projects/{project_id}/functions', { params: { project_id: project.id }, query: { limit: 200 } }),
  });
  return (
    <>
      <div className="row">
        {atLeast(role, 'developer') && (
          <button type="button" className="primary" onClick={() => setNew(true)}>
            New function
          </button>
        )}
      </div>
      {functions.error && <Failure error={functions.error} onRetry={() => void functions.refetch()} />}
      {functions.data?.total === 0 && (
        <p className="empty">No function yet. A function runs your code in a sandbox, with the database at hand.</p>
      )}
      {functions.data !== undefined && functions.data.total > 0 && (
        <Table caption="Functions" isCaptionHidden columns={['Name', 'Language', 'Who may call', 'Version', 'Changed']}>
          {functions.data.functions.map((fn) => (
            <tr key={fn.id}>
              <td>
                <Link href={`/projects/${project.id}/functions/${fn.id}`}>{fn.name}</Link>
              </td>
              <td>{fn.language}</td>
              <td>{fn.access}</td>
              <td>{fn.version}</td>
              <td>
                <Time at={fn.updated_at} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      {isNew && <NewFunction onClose={() => setNew(false)} />}
    </>
  );
};

/** The functions of the project, and what they share. */
export const FunctionsPage = () => {
  const tab = useTab(tabs);
  return (
    <>
      <h1>Functions</h1>
      <Tabs label="Parts of the functions" tabs={tabs} current={tab} />
      {tab === 'list' ? <FunctionList /> : <SharedVariables />}
    </>
  );
};
