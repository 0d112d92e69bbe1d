import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiError, send } from '../../client/api.ts';
import { textOf } from '../../client/exact-json.ts';
import { useProject } from '../../client/project.ts';
import { restPath } from '../../client/rest.ts';
import type { SchemaTable } from '../../client/schema.ts';
import type { Row } from '../../client/values.ts';
import { Failure } from '../../components/failure.tsx';
import { Table } from '../../components/table.tsx';
import { ViewedAs } from '../tables/viewed-as.tsx';

const shownRows = 10;
const shownColumns = 8;
const maxCounted = 100_000;

interface Seen {
  readonly rows: readonly Row[];
  readonly total: string;
}

const useSeen = (table: SchemaTable, as: string) => {
  const { project } = useProject();
  return useQuery({
    // Another answer once the policies are others.
    queryKey: ['rows-seen', project.id, table.name, as, JSON.stringify([table.rls, table.policies])],
    queryFn: async ({ signal }): Promise<Seen> => {
      const headers = {
        'x-plinth-as': as,
        prefer: (table.row_estimate ?? 0) < maxCounted ? 'count=exact' : 'count=estimated',
      };
      const at = `${restPath(project.id, table.name)}?limit=${shownRows}`;
      const { response, body } = await send(at, { headers, signal }, true);
      return { rows: body as Row[], total: response.headers.get('content-range')?.split('/')[1] ?? '?' };
    },
    retry: false,
    staleTime: 0,
  });
};

/** Shows the rows that anon, or one user, sees: the database itself applies the policies. */
export const PolicyTester = ({ table }: { readonly table: SchemaTable }) => {
  const [as, setAs] = useState('anon');
  const seen = useSeen(table, as);
  const all = useSeen(table, 'service');
  const columns = table.columns.slice(0, shownColumns).map(({ name }) => name);
  const isRefused = seen.error instanceof ApiError && seen.error.status === 403;
  return (
    <section aria-label="Policy tester">
      <h3>What does somebody see?</h3>
      <ViewedAs as={as} onChange={setAs} />
      {isRefused && <p>Nothing: the table is refused.</p>}
      {seen.error && <Failure error={seen.error} onRetry={() => void seen.refetch()} />}
      {seen.data && (
        <>
          <p role="status">
            {seen.data.total} of {all.data?.total ?? '…'} rows are seen.
          </p>
          {seen.data.rows.length > 0 && (
            <Table caption="The first of them" columns={columns}>
              {seen.data.rows.map((row, number) => (
                // oxlint-disable-next-line react/no-array-index-key -- an answer never changes
                <tr key={number}>
                  {columns.map((name) => (
                    <td key={name}>{row[name] === null ? <i>NULL</i> : textOf(row[name]).slice(0, 60)}</td>
                  ))}
                </tr>
              ))}
            </Table>
          )}
        </>
      )}
    </section>
  );
};
