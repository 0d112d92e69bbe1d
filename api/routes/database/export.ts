import { Readable } from 'node:stream';
import { z } from 'zod';
import { exportRows } from '#domain/data-api/rest/export.ts';
import { inProject } from '../../access.ts';
import { memberCall } from '../../auth/by-member.ts';
import { type Endpoint, RawReply } from '../../endpoint.ts';
import { rawEndpoint } from '../../raw-endpoint.ts';
import { area } from '#api/shapes/database.ts';

/** For the API page; filters are named after the columns. */
const choosing = z.object({
  select: z.string().optional().describe('Columns, as in the data API.'),
  order: z.string().optional(),
  limit: z.string().optional().describe('Without it: all rows.'),
});

export const exportEndpoints: readonly Endpoint[] = [
  rawEndpoint({
    method: 'get',
    path: '/projects/{project_id}/db/tables/{table}/export',
    area,
    summary: 'All rows of a table that the filters choose, at one moment: CSV or JSON, as `Accept` says',
    access: inProject('viewer'),
    rate: 'dashboard',
    query: choosing,
    handle: async (request, given) => {
      const call = await memberCall(given);
      const { method, path, params, queryText, header, headersJson, signal, context } = request;
      const { table = '' } = params;
      const { form, body } = await exportRows(call.deps, {
        caller: call.caller,
        signal,
        headersJson,
        exposed: call.project.exposed_schemas,
        dialect: { root: '', bareEquality: false, returnsCreated: false },
        request: { method, path, queryText, header, target: { kind: 'table', table }, body: Buffer.alloc(0) },
        userId: call.user.id,
        table,
      });
      if (method === 'HEAD') {
        await body.return();
        return new RawReply(Readable.from([]), form.type);
      }
      // A client must not take a part for the whole file: an export that fails breaks the connection.
      const stream = Readable.from(body, { objectMode: false }).once('error', () => context.res.destroy());
      return new RawReply(stream, form.type);
    },
  }),
];
