import { z } from 'zod';
import {
  createSnippet,
  deleteSnippet,
  findSnippet,
  listSnippets,
  maxSqlLength,
  replaceSnippet,
} from '#domain/database/saved-sql/snippets.ts';
import { area, projectPath } from '#api/shapes/database.ts';
import { type InProject, inProject } from '../../access.ts';
import type { Call } from '../../call.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { id, instant, name, namedObject, page, text } from '../../fields.ts';

const snippetPath = projectPath.extend({ snippet_id: id });

const snippet = namedObject('Snippet', {
  id,
  name: z.string(),
  sql: z.string(),
  shared: z.boolean().describe('All members see it, and developers change it.'),
  version: z.int(),
  own: z.boolean(),
  updated_at: instant,
});

const snippetText = z.strictObject({ name, sql: text(maxSqlLength), shared: z.boolean().default(false) });

const readerOf = ({ project, user }: Call<InProject>) => ({ projectId: project.id, userId: user.id });

const common = { area, params: snippetPath } as const;

/** Texts of SQL that people keep (contract, section 13). */
export const snippetEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/snippets',
    area,
    summary: 'Your snippets, and the shared ones of the project',
    access: inProject('viewer'),
    params: projectPath,
    query: page,
    response: z.object({ snippets: z.array(snippet), total: z.int() }),
    handle: ({ query }, call) => listSnippets(call.db, readerOf(call), query),
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/snippets',
    area,
    summary: 'Keep a text of SQL, for yourself or for all members',
    access: inProject('developer'),
    params: projectPath,
    body: snippetText,
    status: 201,
    response: snippet,
    handle: ({ body }, call) => createSnippet(call.db, readerOf(call), body),
  }),
  endpoint({
    ...common,
    method: 'get',
    path: '/projects/{project_id}/snippets/{snippet_id}',
    summary: 'One snippet',
    access: inProject('viewer'),
    response: snippet,
    handle: ({ params }, call) => findSnippet(call.db, readerOf(call), params.snippet_id),
  }),
  endpoint({
    ...common,
    method: 'put',
    path: '/projects/{project_id}/snippets/{snippet_id}',
    summary: 'Replace a snippet; a version that is not the present one is a conflict',
    access: inProject('developer'),
    body: snippetText.extend({ version: z.int().min(1).describe('The version that was read.') }),
    response: snippet,
    handle: ({ params, body }, call) => replaceSnippet(call.db, readerOf(call), { ...body, id: params.snippet_id }),
  }),
  endpoint({
    ...common,
    method: 'delete',
    path: '/projects/{project_id}/snippets/{snippet_id}',
    summary: 'Delete a snippet',
    access: inProject('developer'),
    handle: ({ params }, call) => deleteSnippet(call.db, readerOf(call), params.snippet_id),
  }),
];
