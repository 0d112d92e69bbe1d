import { z } from 'zod';
import { getFunctionVersion } from '#domain/functions/functions.ts';
import { listVersions, maxListedCode, maxVersions, rollBack } from '#domain/functions/store.ts';
import { inProject } from '../../access.ts';
import { type Endpoint, RawReply, endpoint } from '../../endpoint.ts';
import { id, instant, namedObject, page } from '../../fields.ts';
import { reportWarmStart } from '#api/http/warm-start.ts';
import {
  detailedFunction,
  filesShown,
  functionPath,
  shownFunction,
  versionNumber,
  withFiles,
} from '#api/shapes/functions.ts';

const area = 'functions';

const version = z.object({
  version: z.int(),
  created_at: instant,
  entry_point: z.string(),
  entrypoint: z.string().nullable().describe('Path of the file with the handler; null for one file.'),
  code: z
    .string()
    .nullable()
    .describe(`Null from where a page holds more than ${maxListedCode} bytes of code: ask for fewer versions.`),
  created_by: id.nullable().describe('The user; null when that user is gone.'),
});
const versionWithFiles = namedObject('FunctionVersion', {
  ...version.shape,
  files: filesShown.describe('The same for several files.'),
});

/** Versions of functions (contract, section 4). */
export const versionEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/functions/{id}/versions',
    area,
    summary: `The replaced versions of a function, newest first; the newest ${maxVersions} are kept`,
    access: inProject('viewer'),
    params: functionPath,
    query: page,
    response: z.object({
      versions: z.array(versionWithFiles),
      total: z.int(),
    }),
    handle: async ({ params, query }, { db, project }) => {
      await getFunctionVersion(db, project.id, { id: params.id });
      const { versions, total } = await listVersions(db, params.id, query);
      const shown = versions.map((row) => withFiles(version, row, row.files));
      return new RawReply(`{"versions":[${shown.join(',')}],"total":${total}}`);
    },
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/functions/{id}/versions/{v}/rollback',
    area,
    summary: 'Make an earlier version the present one, under a new number; the present one is kept',
    access: inProject('developer'),
    params: functionPath.extend({ v: versionNumber }),
    response: detailedFunction.extend({ rolled_back_to: z.int(), saved_as: z.int() }),
    auditAction: 'function.rollback',
    handle: async ({ params }, call) => {
      const of = { projectId: call.project.id, id: params.id };
      const { row, ...how } = await rollBack(call.db, of, params.v, call.user.id);
      reportWarmStart(row, call);
      return { ...shownFunction(row, call), ...how };
    },
  }),
];
