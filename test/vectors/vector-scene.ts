import type { TestFn } from 'ava';
import type { AiCaller, Gateway } from '#domain/ai/gateway/types.ts';
import { type Platform, openPlatform } from '#domain/platform.ts';
import { findProject } from '#domain/projects/store.ts';
import { type Upserted, searchDocuments, upsertDocuments } from '#domain/vectors/vectors.ts';
import type { JobOutcome } from '#queues/define.ts';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { vectorsUpsertProcessor } from '#workers/processors/vectors-upsert.ts';

/** `1 0 2` is the vector of that text; what else a text says stands behind a colon. */
const vectorOf = (text: string): number[] => (text.split(':')[0] ?? '').trim().split(' ').map(Number);

export interface FakeGateway extends Pick<Gateway, 'embed' | 'resolve'> {
  /** The texts of each call, in order. */
  readonly requested: string[][];
}

const reported = { provider: 'openai', latencyMs: 1, usage: { prompt_tokens: 1, completion_tokens: 0 } } as const;

/** A provider whose answers are known; `before` may fail, or wait. */
export const fakeGateway = (
  before: (texts: readonly string[]) => Promise<void> = async () => undefined,
): FakeGateway => {
  const requested: string[][] = [];
  return {
    requested,
    embed: async (_caller, { model, input }) => {
      const texts = input.map(String);
      requested.push(texts);
      await before(texts);
      const vectors = texts.map(vectorOf);
      return { ...reported, tokensSource: 'reported', model, vectors, dimensions: vectors[0]?.length ?? 0 };
    },
    resolve: (_project, model) => Promise.resolve({ provider: 'openai', model: model.replace('openai/', '') }),
  };
};

interface NewDocument {
  readonly id: string;
  readonly content: string;
  readonly metadata?: Record<string, unknown>;
}

export interface VectorScene {
  readonly owner: TestUser;
  readonly project: TestProject;
  readonly platform: Platform;
  readonly caller: AiCaller;
  readonly collection: (name: string, dimensions?: number) => Promise<void>;
  readonly upsert: (
    gateway: FakeGateway,
    to: string,
    documents: readonly NewDocument[],
    model?: string | null,
  ) => Promise<Upserted>;
  /** As the worker runs it. */
  readonly run: (gateway: FakeGateway, to: string, documents: readonly NewDocument[]) => Promise<JobOutcome>;
  readonly search: (
    gateway: FakeGateway,
    within: string,
    query: string,
    more?: { readonly limit?: number; readonly filter?: Record<string, unknown> },
  ) => ReturnType<typeof searchDocuments>;
  /** As the project's owner. @throws when it is not answered by 200 */
  readonly sql: (text: string, params?: readonly unknown[]) => Promise<unknown[]>;
}

const withMetadata = (documents: readonly NewDocument[]) =>
  documents.map(({ metadata = {}, ...document }) => ({ ...document, metadata: JSON.stringify(metadata) }));

const never = new AbortController().signal;

/** A platform, a project in it, and the vectors' own functions with a provider that is played. */
export const useVectors = (test: TestFn) => {
  const platform = usePlatform(test);
  let made: VectorScene | undefined;
  let opened: Platform | undefined;
  test.serial.before('the project is made', async () => {
    const { client, config } = platform();
    opened = await openPlatform(config, memoryLog().log);
    const owner = await client.signUp();
    const project = await client.createProject(owner, { plan: 'enterprise' });
    made = await sceneOf(opened, owner, project, client.call);
  });
  test.after.always('the connections are closed', () => opened?.close());
  return {
    platform,
    scene: (): VectorScene => {
      if (made === undefined) throw new Error('there is no project yet');
      return made;
    },
  };
};

const sceneOf = async (
  platform: Platform,
  owner: TestUser,
  project: TestProject,
  call: ReturnType<ReturnType<typeof usePlatform>>['client']['call'],
): Promise<VectorScene> => {
  const row = await findProject(platform.db, project.id);
  if (row === undefined) throw new Error('the project is not there');
  const caller = { project: row, kind: 'vectors', requestId: 'test', signal: never } as const;
  const { tenantDb } = platform.projects;
  const post = async (path: string, status: number, body: unknown): Promise<{ rows: unknown[] }> => {
    const answer = await call('POST', `/projects/${project.id}${path}`, { token: owner.token, body });
    if (answer.status !== status) throw new Error(`${path} answered ${answer.status}: ${answer.text}`);
    return answer.body;
  };
  return {
    owner,
    project,
    platform,
    caller,
    collection: async (name, dimensions = 3) => void (await post('/ai/vectors/collections', 201, { name, dimensions })),
    upsert: (gateway, collection, documents, model = 'embed-1') =>
      upsertDocuments({ tenantDb, gateway }, caller, { collection, model, documents: withMetadata(documents) }),
    run: (gateway, collection, documents) =>
      vectorsUpsertProcessor({ db: platform.db, projects: { tenantDb }, gateway }).run(
        { collection, model: 'embed-1', documents: withMetadata(documents) },
        {
          jobId: crypto.randomUUID(),
          projectId: project.id,
          requestId: 'test',
          attempt: 1,
          signal: never,
          log: () => undefined,
          progress: () => undefined,
        },
      ),
    search: (gateway, collection, query, { limit = 10, filter } = {}) =>
      searchDocuments({ tenantDb, gateway }, caller, {
        collection,
        query,
        limit,
        filter: filter === undefined ? null : JSON.stringify(filter),
      }),
    sql: async (sql, params = []) => (await post('/db/query', 200, { sql, params })).rows,
  };
};
