import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { Pager } from '../../dashboard/components/pager.tsx';
import { Table } from '../../dashboard/components/table.tsx';
import type { Filters } from '../../dashboard/client/filters.ts';
import type { Job } from '../client/api.ts';
import { shortId, statusClass } from '../client/words.ts';
import { When } from './when.tsx';

export const pageSize = 50;

/** The status of a job, a fire or a mail. */
export const Status = ({ status }: { readonly status: string }) => (
  <span className={statusClass(status)}>{status}</span>
);

/** The name of the function that a job runs, which leads to the jobs of that function. */
export const FunctionLink = ({ function_id: id, function_name: name }: Pick<Job, 'function_id' | 'function_name'>) =>
  id === null ? null : (
    <Link href={`/jobs?function=${id}`} title={id}>
      {name ?? 'deleted'}
    </Link>
  );

const columns = ['Job', 'Status', 'Project', 'Function', 'Attempt', 'Accepted', 'Ended', 'Error'];

interface JobTableProps {
  readonly caption: string;
  readonly jobs: readonly Job[];
  /** Columns in front of the others. */
  readonly more?: readonly { readonly label: string; readonly cell: (job: Job) => ReactNode }[];
}

/** Jobs as a table. */
export const JobTable = ({ caption, jobs, more = [] }: JobTableProps) => (
  <Table caption={caption} isCaptionHidden columns={[...more.map(({ label }) => label), ...columns]}>
    {jobs.map((job) => (
      <tr key={job.id}>
        {more.map(({ label, cell }) => (
          <td key={label}>{cell(job)}</td>
        ))}
        <td>
          <Link href={`/jobs/${job.id}`} title={job.id}>
            {job.type} <code>{shortId(job.id)}</code>
          </Link>
        </td>
        <td>
          <Status status={job.status} />
        </td>
        <td>
          <Link href={`/jobs?project=${job.project_id}`}>
            {job.project_name ?? job.project_ref ?? shortId(job.project_id)}
          </Link>
        </td>
        <td>
          <FunctionLink {...job} />
        </td>
        <td>
          {job.attempt} of {job.max_attempts}
        </td>
        <td>
          <When at={job.created_at} />
        </td>
        <td>
          <When at={job.finished_at} />
        </td>
        <td className="one-line" title={job.error?.message}>
          {job.error !== null && (
            <>
              <code>{job.error.code}</code> {job.error.message}
            </>
          )}
        </td>
      </tr>
    ))}
  </Table>
);

interface ListPagerProps {
  readonly label: string;
  readonly filters: Filters;
  readonly total: number;
  readonly isExact?: boolean;
}

/** Where such a list stands among its pages. */
export const ListPager = ({ label, filters, total, isExact = true }: ListPagerProps) => (
  <Pager
    label={label}
    offset={filters.offset}
    limit={pageSize}
    total={total}
    isExact={isExact}
    isAlwaysShown
    onMove={filters.move}
  />
);
