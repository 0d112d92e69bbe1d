import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { fieldOf } from '../../dashboard/client/form.ts';
import { Failure } from '../../dashboard/components/failure.tsx';
import { Table } from '../../dashboard/components/table.tsx';
import { type DeletedProject, call } from '../client/api.ts';
import { announce } from '../client/announce.ts';
import { Ask } from '../components/ask.tsx';
import { TextField } from '../components/fields.tsx';
import { When } from '../components/when.tsx';

interface RestoreProps {
  readonly project: DeletedProject;
  readonly refresh: () => Promise<unknown>;
}

const AskToRestore = ({ project, refresh, onClose }: RestoreProps & { readonly onClose: () => void }) => (
  <Ask
    title={`Restore ${project.name}?`}
    text="Its database, keys, functions, schedules and webhooks work again as they were. Jobs that were cancelled stay cancelled."
    action="Restore"
    onClose={onClose}
    work={async (form) => {
      const slug = fieldOf(form, 'slug').trim();
      await call('POST /ops/api/projects/{project_id}/restore', {
        params: { project_id: project.project_id },
        body: project.slug_taken ? { slug } : {},
      });
      announce(`${project.name} is restored.`);
      await refresh();
    }}
  >
    {project.slug_taken && (
      <TextField
        name="slug"
        label={`Another project has the slug ${project.slug} by now. New slug`}
        value={`${project.slug}_restored`}
        required
      />
    )}
  </Ask>
);

const Restore = ({ project, refresh }: RestoreProps) => {
  const [isAsking, setAsking] = useState(false);
  if (project.org_deleted) return <span className="tag warn">organization deleted</span>;
  return (
    <>
      <button type="button" aria-label={`Restore ${project.name}`} onClick={() => setAsking(true)}>
        Restore
      </button>
      {isAsking && <AskToRestore project={project} refresh={refresh} onClose={() => setAsking(false)} />}
    </>
  );
};

/** Deleted projects, while their databases are kept. Nothing is shown while there are none. */
export const DeletedProjects = () => {
  const list = useQuery({
    queryKey: ['deleted-projects'],
    queryFn: () => call('GET /ops/api/projects/deleted', {}),
    refetchInterval: 15_000,
  });
  if (list.data === undefined && list.error) return <Failure error={list.error} onRetry={() => void list.refetch()} />;
  if (list.data === undefined || list.data.projects.length === 0) return null;
  return (
    <section aria-labelledby="deleted-projects">
      <h2 id="deleted-projects">Deleted projects</h2>
      {list.error && <Failure error={list.error} onRetry={() => void list.refetch()} />}
      <Table
        caption="Deleted projects, the latest first"
        isCaptionHidden
        columns={['Project', 'Organization', 'Deleted', 'Kept until', 'Actions']}
      >
        {list.data.projects.map((project) => (
          <tr key={project.project_id}>
            <td>
              {project.name}
              <small className="muted">
                {project.ref} · {project.plan}
              </small>
            </td>
            <td>{project.org_name}</td>
            <td>
              <When at={project.deleted_at} />
            </td>
            <td>
              <When at={project.restorable_until} />
            </td>
            <td>
              <Restore project={project} refresh={list.refetch} />
            </td>
          </tr>
        ))}
      </Table>
    </section>
  );
};
