import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { useSearch } from '../../client/search.ts';
import type { Operations } from '../../client/types.ts';
import { whenOf } from '../../client/when.ts';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';
import { NewSegment } from './new-segment.tsx';

type Listed = Operations['GET /projects/{project_id}/segments']['answer']['segments'][number];

const pageSize = 50;

const sizeOf = ({ conditions, key_count: keys }: Listed): string => {
  if (conditions === null) return keys === 1 ? 'one key' : `${keys.toLocaleString()} keys`;
  return conditions.length === 1 ? 'one condition' : `${conditions.length} conditions`;
};

/** The groups of users that rules of flags name. */
export const SegmentsPage = () => {
  const { project, role } = useProject();
  const [, go] = useLocation();
  const [search, setSearch] = useSearch();
  const [isOpen, setOpen] = useState(false);
  const offset = Number(search.get('offset') ?? 0) || 0;
  const segments = useQuery({
    queryKey: ['segments', project.id, offset],
    queryFn: () =>
      call('GET /projects/{project_id}/segments', {
        params: { project_id: project.id },
        query: { limit: pageSize, offset },
      }),
    placeholderData: keepPreviousData,
  });
  const mayWrite = atLeast(role, 'developer');
  const base = `/projects/${project.id}/segments`;
  const all = segments.data?.segments ?? [];
  return (
    <>
      <div className="row">
        <h1>Segments</h1>
        {mayWrite && (
          <button type="button" className="primary" onClick={() => setOpen(true)}>
            New segment
          </button>
        )}
      </div>
      <p className="muted">
        Groups of users that rules of <Link href={`/projects/${project.id}/flags`}>flags</Link> name. All environments
        have the same.
        {!mayWrite && ' Segments are made and changed by developers, admins and owners.'}
      </p>
      {segments.error && <Failure error={segments.error} onRetry={() => void segments.refetch()} />}
      {segments.data !== undefined && all.length === 0 && <p className="empty">There are no segments.</p>}
      {all.length > 0 && (
        <Table caption="Segments" isCaptionHidden columns={['Key', 'Name', 'Who belongs to it', 'Flags', 'Changed']}>
          {all.map((segment) => (
            <tr key={segment.key}>
              <td>
                <Link href={`${base}/${segment.key}`}>{segment.key}</Link>
              </td>
              <td className="one-line">
                <bdi>{segment.name}</bdi>
              </td>
              <td>{sizeOf(segment)}</td>
              <td>{segment.flags === 0 ? <span className="muted">none</span> : segment.flags}</td>
              <td>{whenOf(segment.updated_at)}</td>
            </tr>
          ))}
        </Table>
      )}
      <Pager
        label="segments"
        offset={offset}
        limit={pageSize}
        shown={segments.data?.segments.length ?? 0}
        total={segments.data?.total ?? 0}
        onMove={(to) => setSearch({ offset: String(to) })}
      />
      {isOpen && <NewSegment onMade={(key) => go(`${base}/${key}`)} onClose={() => setOpen(false)} />}
    </>
  );
};
