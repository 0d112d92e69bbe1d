import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../client/api.ts';
import { useFilters } from '../../client/filters.ts';
import { atLeast, useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Diff } from '../../components/diff.tsx';
import { Confirm } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { Pager } from '../../components/pager.tsx';
import { Table } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { type Draft, type Fn, type Source, sourceOf } from './source.ts';

type Version = Operations['GET /projects/{project_id}/functions/{id}/versions']['answer']['versions'][number];

const limit = 20;

/** The files of two states that differ, each with both texts. */
const changedFiles = (before: Source, after: Source) =>
  [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .toSorted()
    .filter((path) => before[path] !== after[path])
    .map((path) => ({ path, before: before[path] ?? '', after: after[path] ?? '' }));

interface ComparisonProps {
  readonly title: string;
  readonly before: Source;
  readonly after: Source;
}

const Comparison = ({ title, before, after }: ComparisonProps) => {
  const files = changedFiles(before, after);
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      {files.length === 0 && (
        <p className="muted">The code is the same; limits, variables or the entry point differ.</p>
      )}
      {files.map(({ path, ...texts }) => (
        <div key={path}>
          {path !== '' && <h3>{path}</h3>}
          <Diff label={path === '' ? 'Changed lines' : `Changed lines of ${path}`} {...texts} />
        </div>
      ))}
    </section>
  );
};

const Rollback = ({
  fn,
  version,
  onClose,
}: {
  readonly fn: Fn;
  readonly version: Version;
  readonly onClose: () => void;
}) => {
  const { project } = useProject();
  const queries = useQueryClient();
  const roll = useMutation({
    mutationFn: () =>
      call('POST /projects/{project_id}/functions/{id}/versions/{v}/rollback', {
        params: { project_id: project.id, id: fn.id, v: String(version.version) },
        body: {},
      }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['function', fn.id] });
      await queries.invalidateQueries({ queryKey: ['versions', fn.id] });
      onClose();
    },
  });
  return (
    <Confirm
      title={`Deploy version ${version.version} again?`}
      action={roll.isPending ? 'Deploying…' : `Roll back to version ${version.version}`}
      onClose={onClose}
      onConfirm={() => roll.mutate()}
    >
      <p>
        Its code, entry point, limits and variables become version {fn.version + 1}. Version {fn.version} is kept, so
        that this can be undone in the same way.
      </p>
      {roll.error && <Failure error={roll.error} />}
    </Confirm>
  );
};

/** The replaced versions, each compared with what is deployed, and the way back to one. */
export const Versions = ({ fn, draft }: { readonly fn: Fn; readonly draft: Draft }) => {
  const { project, role } = useProject();
  const filters = useFilters();
  const [rolling, setRolling] = useState<Version | null>(null);
  const versions = useQuery({
    queryKey: ['versions', fn.id, fn.version, filters.offset],
    queryFn: () =>
      call('GET /projects/{project_id}/functions/{id}/versions', {
        params: { project_id: project.id, id: fn.id },
        query: { limit, offset: filters.offset },
      }),
    placeholderData: (present) => present,
  });
  const chosen = versions.data?.versions.find(({ version }) => String(version) === filters.get('version'));
  const isDraftChosen = filters.get('version') === 'draft';
  const hasCode = chosen !== undefined && (chosen.code !== null || chosen.files !== null);
  return (
    <>
      <p>
        Version {fn.version} is deployed. Each change of code, limits or variables makes a version; the newest 100 are
        kept.
        {draft.isChanged && (
          <button type="button" className="quiet" onClick={() => filters.pick({ version: 'draft' })}>
            Compare your draft with it
          </button>
        )}
      </p>
      {versions.error && <Failure error={versions.error} onRetry={() => void versions.refetch()} />}
      {versions.data?.total === 0 && <p className="empty">No version has been replaced yet.</p>}
      {versions.data !== undefined && versions.data.total > 0 && (
        <Table caption="Replaced versions" isCaptionHidden columns={['Version', 'Deployed', 'Entry point', '']}>
          {versions.data.versions.map((version) => (
            <tr key={version.version} aria-current={version === chosen}>
              <td>{version.version}</td>
              <td>
                <Time at={version.created_at} />
              </td>
              <td>{version.entry_point}</td>
              <td className="row">
                <button type="button" onClick={() => filters.pick({ version: String(version.version) })}>
                  Compare version {version.version} with the present one
                </button>
                {atLeast(role, 'developer') && (
                  <button type="button" onClick={() => setRolling(version)}>
                    Roll back to {version.version}
                  </button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Pager
        offset={filters.offset}
        limit={limit}
        total={versions.data?.total ?? 0}
        label="versions"
        onMove={filters.move}
      />
      {chosen !== undefined && !hasCode && (
        <p className="muted">The code of this page of versions is longer than what one answer holds.</p>
      )}
      {chosen !== undefined && hasCode && (
        <Comparison
          title={`From version ${chosen.version} to version ${fn.version}`}
          before={sourceOf(chosen)}
          after={sourceOf(fn)}
        />
      )}
      {isDraftChosen && (
        <Comparison title={`From version ${fn.version} to your draft`} before={sourceOf(fn)} after={draft.source} />
      )}
      {rolling !== null && <Rollback fn={fn} version={rolling} onClose={() => setRolling(null)} />}
    </>
  );
};
