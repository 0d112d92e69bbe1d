import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';

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

/** The functions of the project. */
export const FunctionsPage = () => {
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
        <h1>Functions</h1>
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
                <time dateTime={fn.updated_at}>{new Date(fn.updated_at).toLocaleString()}</time>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {isNew && <NewFunction onClose={() => setNew(false)} />}
    </>
  );
};
