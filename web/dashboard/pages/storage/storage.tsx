import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from '../../client/api.ts';
import { atLeast, useProject } from '../../client/project.ts';
import { Failure } from '../../components/failure.tsx';
import { NewBucket } from './bucket-dialogs.tsx';
import { Folder } from './folder.tsx';
import { sizeText } from './paths.ts';

/** How much of the plan's room the files of the project take. */
const Usage = () => {
  const { project } = useProject();
  const usage = useQuery({
    queryKey: ['files', project.id, 'usage'],
    queryFn: () => call('GET /projects/{project_id}/usage', { params: { project_id: project.id } }),
  });
  if (usage.data === undefined) return null;
  const { used, limit } = usage.data.storage_bytes;
  return (
    <p className="room">
      <span>
        {sizeText(used)} {limit === null ? 'in files' : `of ${sizeText(limit)}`}
      </span>
      {limit !== null && (
        <meter aria-label="Room taken by files" value={used} max={limit} low={limit * 0.8} high={limit * 0.95} />
      )}
    </p>
  );
};

/** The buckets of the project, and a folder of the one that the address names. */
export const StoragePage = ({ bucket: given }: { readonly bucket: string | undefined }) => {
  const { project, role } = useProject();
  const [, go] = useLocation();
  const [isNew, setNew] = useState(false);
  const buckets = useQuery({
    queryKey: ['files', project.id, 'buckets'],
    queryFn: () => call('GET /projects/{project_id}/storage/v1/bucket', { params: { project_id: project.id } }),
  });
  if (buckets.data === undefined && buckets.error)
    return <Failure error={buckets.error} onRetry={() => void buckets.refetch()} />;
  if (buckets.data === undefined) return <p className="loading">Loading…</p>;
  const bucket = buckets.data.find(({ id }) => id === given);
  const addressOf = (id: string): string => `/projects/${project.id}/storage/${encodeURIComponent(id)}`;
  return (
    <>
      <div className="row">
        <h1>Storage</h1>
        {atLeast(role, 'admin') && (
          <button type="button" onClick={() => setNew(true)}>
            New bucket
          </button>
        )}
        <Usage />
      </div>
      {!atLeast(role, 'developer') && <p className="muted">Files are uploaded, moved and deleted by developers.</p>}
      <div className="with-list">
        <nav aria-label="Buckets" className="list">
          {buckets.data.map(({ id, name }) => (
            <Link key={id} href={addressOf(id)} aria-current={id === given ? 'page' : undefined}>
              {name}
            </Link>
          ))}
        </nav>
        <section className="fill">
          {bucket && <Folder key={bucket.id} bucket={bucket} buckets={buckets.data} />}
          {!bucket && given !== undefined && <p className="empty">There is no bucket of that name.</p>}
          {!bucket && given === undefined && (
            <p className="empty">{buckets.data.length === 0 ? 'There is no bucket yet.' : 'Choose a bucket.'}</p>
          )}
        </section>
      </div>
      {isNew && (
        <NewBucket
          onClose={(made) => {
            setNew(false);
            if (made === null) return;
            void buckets.refetch();
            go(addressOf(made));
          }}
        />
      )}
    </>
  );
};
