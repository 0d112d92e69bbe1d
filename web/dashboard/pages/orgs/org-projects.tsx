import { useQueries, useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { call } from '../../client/api.ts';
import { bytesText } from '../../client/bytes.ts';
import { useOrg } from '../../client/org.ts';
import type { Operations } from '../../client/types.ts';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';
import { useSearch } from '../../client/search.ts';

type Usage = Operations['GET /projects/{project_id}/usage']['answer'];

/** Each of them is asked for its usage, which looks into its database. */
const pageSize = 10;

interface UsedProps {
  readonly label: string;
  readonly of: { readonly used: number; readonly limit: number | null } | undefined;
  readonly textOf: (value: number) => string;
}

const Used = ({ label, of, textOf }: UsedProps) => {
  if (of === undefined) return <span className="muted">–</span>;
  const { used, limit } = of;
  return (
    <>
      {textOf(used)}
      {limit !== null && (
        <>
          <span className="muted"> of {textOf(limit)}</span>{' '}
          <meter
            aria-label={label}
            min={0}
            max={Math.max(1, limit)}
            low={limit * 0.8}
            high={limit * 0.95}
            optimum={0}
            value={used}
          />
        </>
      )}
    </>
  );
};

const numberText = (value: number): string => value.toLocaleString();

const resetOf = (usages: readonly (Usage | undefined)[]): string | null => {
  const known = usages.find((usage) => usage !== undefined);
  return known === undefined
    ? null
    : new Date(known.invocations.resets_at).toLocaleDateString([], { dateStyle: 'medium' });
};

/** The projects of the organization with what they use of their plans. */
export const OrgProjectsPage = () => {
  const { org_id: id } = useOrg();
  const [search, setSearch] = useSearch();
  const offset = Number(search.get('offset') ?? 0) || 0;
  const projects = useQuery({
    queryKey: ['projects', id, offset],
    queryFn: () => call('GET /projects', { query: { org_id: id, limit: pageSize, offset } }),
  });
  const shown = projects.data?.projects ?? [];
  const usages = useQueries({
    queries: shown.map((project) => ({
      queryKey: ['usage', project.id],
      queryFn: () => call('GET /projects/{project_id}/usage', { params: { project_id: project.id } }),
      enabled: project.status === 'active',
      staleTime: 60_000,
    })),
  });
  const reset = resetOf(usages.map(({ data }) => data));
  return (
    <>
      <h2>Projects and usage</h2>
      {projects.error && <Failure error={projects.error} onRetry={() => void projects.refetch()} />}
      {projects.data?.total === 0 && (
        <p className="empty">
          There is no project in this organization yet. <Link href="/">All projects</Link>
        </p>
      )}
      {shown.length > 0 && (
        <Table
          caption="Projects and usage"
          isCaptionHidden
          columns={['Project', 'Plan', 'State', 'Invocations this month', 'Database', 'Files']}
        >
          {shown.map((project, place) => {
            const usage = usages[place]?.data;
            return (
              <tr key={project.id}>
                <td>
                  <Link href={`/projects/${project.id}`}>
                    <bdi>{project.name}</bdi>
                  </Link>
                </td>
                <td>{project.plan}</td>
                <td>{project.status}</td>
                <td>
                  <Used label={`Invocations of ${project.name}`} of={usage?.invocations} textOf={numberText} />
                </td>
                <td>
                  <Used label={`Database of ${project.name}`} of={usage?.database_bytes} textOf={bytesText} />
                </td>
                <td>
                  <Used label={`Files of ${project.name}`} of={usage?.storage_bytes} textOf={bytesText} />
                </td>
              </tr>
            );
          })}
        </Table>
      )}
      <Pager
        label="projects"
        offset={offset}
        limit={pageSize}
        total={projects.data?.total ?? 0}
        onMove={(to) => setSearch({ offset: String(to) })}
      />
      {reset !== null && <p className="muted">Invocations count anew from {reset}.</p>}
    </>
  );
};
