import { readWholeSchema } from '#domain/database/whole-schema.ts';
import { inProject } from '../../access.ts';
import { type Endpoint, RawReply, endpoint } from '../../endpoint.ts';
import { area, projectPath, wholeSchema } from '#api/shapes/database.ts';

/** The whole schema of a project in one answer (contract, section 13). */
export const schemaEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/db/schema',
    area,
    summary: 'All schemas, tables, enums and functions; with If-None-Match it is 304 while nothing has changed',
    access: inProject('viewer'),
    params: projectPath,
    response: wholeSchema,
    handle: async (_, { deps, project, setHeader, http }) => {
      const { text, etag } = await readWholeSchema(deps.projects.tenantDb, project.id);
      setHeader('ETag', etag);
      setHeader('Cache-Control', 'private, no-cache');
      return http.headers['if-none-match'] === etag ? new RawReply(null, undefined, 304) : new RawReply(text);
    },
  }),
];
