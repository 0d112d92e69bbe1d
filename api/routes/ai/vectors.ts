import * as shapes from '../../ai/vector-shapes.ts';
import { z } from 'zod';
import type { Once } from '#domain/database/console/owner-key.ts';
import type { ChangeOf, TableChangeDeps } from '#domain/database/tables/table-changes.ts';
import {
  type Collection,
  createCollection,
  dropCollection,
  enableVectors,
  getCollection,
  listCollections,
  maxDimensions,
  maxIndexed,
} from '#domain/vectors/collections.ts';
import { deleteDocument } from '#domain/vectors/documents.ts';
import { modelFor, searchDocuments } from '#domain/vectors/vectors.ts';
import { ServiceError } from '#lib/errors.ts';
import { vectorsUpsert } from '#queues/vectors-upsert.ts';
import { type InProject, inProject } from '../../access.ts';
import type { Call } from '../../call.ts';
import { type Endpoint, endpoint, jobEndpoint } from '../../endpoint.ts';
import { page } from '../../fields.ts';
import { inTurn } from '../../idempotency.ts';
import { aiJobFailure } from '../../job-error.ts';
import { aiCallerOf } from '../../ai/call.ts';
import { documentsOf, filterOf } from '../../ai/vector-shapes.ts';

const area = 'ai';
const root = '/projects/{project_id}/ai/vectors';

const depsOf = ({ deps }: Call<InProject>): TableChangeDeps => ({ ...deps, tenantDb: deps.projects.tenantDb });
const changeOf = ({ project, signal }: Call<InProject>, once?: Once): ChangeOf => ({
  projectId: project.id,
  signal,
  once,
});

const slow = `Vectors of more than ${maxIndexed.halfvec} dimensions cannot be indexed: each search looks at all of them.`;

const shown = (collection: Collection): z.output<typeof shapes.collection> => {
  const { name, dimensions, document_count, is_indexed: isIndexed, model, created_at } = collection;
  const warning = dimensions > maxIndexed.halfvec ? { warning: slow } : {};
  return { name, dimensions, document_count, index: isIndexed ? 'hnsw' : 'none', model, created_at, ...warning };
};

const requireDimensions = (dimensions: number): void => {
  if (dimensions <= maxDimensions) return;
  throw new ServiceError('too_many_dimensions', `A vector has at most ${maxDimensions} dimensions.`, {
    details: [{ path: 'dimensions', message: `must be at most ${maxDimensions}` }],
  });
};

const requireActive = ({ project: { status } }: Call<InProject>): void => {
  if (status !== 'active') throw new ServiceError('project_not_ready', `The project is ${status}.`);
};

const collectionEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: `${root}/setup`,
    area,
    summary: 'Enable vectors in the project’s database; creating a collection does so, too',
    access: inProject('developer'),
    params: shapes.projectPath,
    response: z.object({ enabled: z.literal(true), version: z.string() }),
    transaction: 'none',
    handle: async (_input, call) => {
      requireActive(call);
      return { enabled: true as const, version: await enableVectors(call.deps, call.project) };
    },
  }),
  endpoint({
    method: 'post',
    path: `${root}/collections`,
    area,
    summary: 'Create a collection: a table of documents with vectors, indexed up to 4,000 dimensions',
    access: inProject('developer'),
    params: shapes.projectPath,
    body: shapes.newCollection,
    status: 201,
    response: shapes.collection,
    transaction: 'none',
    handle: async ({ body, key }, call) => {
      requireActive(call);
      requireDimensions(body.dimensions);
      await enableVectors(call.deps, call.project);
      return shown(await inTurn(call, key, (once) => createCollection(depsOf(call), changeOf(call, once), body)));
    },
  }),
  endpoint({
    method: 'get',
    path: `${root}/collections`,
    area,
    summary: 'The project’s collections, by name',
    access: inProject('viewer'),
    params: shapes.projectPath,
    query: page,
    response: z.object({ collections: z.array(shapes.collection), total: z.int() }),
    handle: async ({ query }, { deps, project }) => {
      const { collections, total } = await listCollections(deps.projects.tenantDb, project.id, query);
      return { collections: collections.map(shown), total };
    },
  }),
  endpoint({
    method: 'delete',
    path: `${root}/collections/{collection}`,
    area,
    summary: 'Delete a collection: its table and all documents',
    access: inProject('developer'),
    params: shapes.collectionPath,
    transaction: 'none',
    handle: ({ params }, call) => dropCollection(depsOf(call), changeOf(call), params.collection),
  }),
];

const documentEndpoints: readonly Endpoint[] = [
  jobEndpoint({
    method: 'post',
    path: `${root}/collections/{collection}/upsert`,
    area,
    summary: 'Embed documents and write them; unchanged ones are not embedded again',
    access: inProject('developer'),
    rate: 'ai',
    bodyLimit: 'ai',
    params: shapes.collectionPath,
    body: shapes.newDocuments,
    response: shapes.upserted,
    request: async ({ params, body, bodyText }, call) => {
      requireActive(call);
      const { deps, project } = call;
      const { id: projectId } = project;
      const documents = documentsOf(body, bodyText);
      // A missing collection or a wrong size is answered at once, also to callers that do not wait.
      const collection = await getCollection(deps.projects.tenantDb, projectId, params.collection);
      const model = await modelFor(deps.ai.gateway, project, body.model ?? null, collection);
      const data = { collection: params.collection, model, documents };
      return { job: vectorsUpsert, projectId, requestId: call.requestId, data };
    },
    answer: ({ outcome: { result, error } }) => {
      if (result !== null) return Promise.resolve(vectorsUpsert.result.parse(JSON.parse(result)));
      return Promise.reject(aiJobFailure(error));
    },
  }),
  endpoint({
    method: 'post',
    path: `${root}/collections/{collection}/search`,
    area,
    summary: 'The documents nearest to a text',
    access: inProject('developer'),
    rate: 'ai',
    bodyLimit: 'ai',
    params: shapes.collectionPath,
    body: shapes.query,
    response: shapes.results,
    transaction: 'none',
    handle: async ({ params, body: { query, limit }, bodyText }, call) => {
      const { deps } = call;
      const caller = { ...aiCallerOf(call, 'vectors'), direct: true } as const;
      const by = { tenantDb: deps.projects.tenantDb, gateway: deps.ai.gateway };
      const wanted = { collection: params.collection, query, limit, filter: filterOf(bodyText) };
      return { results: await searchDocuments(by, caller, wanted) };
    },
  }),
  endpoint({
    method: 'delete',
    path: `${root}/collections/{collection}/documents/{document}`,
    area,
    summary: 'Delete a document',
    access: inProject('developer'),
    params: shapes.documentPath,
    transaction: 'none',
    handle: ({ params: { collection, document: id } }, { deps, project, signal }) =>
      deleteDocument({ ...deps, tenantDb: deps.projects.tenantDb }, { projectId: project.id, collection, id, signal }),
  }),
];

/** Vectors in the project's database (contract, section 8). */
export const vectorEndpoints: readonly Endpoint[] = [...collectionEndpoints, ...documentEndpoints];
