import { type Answer, uniqueName } from '#test/support/client.ts';
import { openValues } from './open-table.ts';

type Values = Readonly<Record<string, () => Promise<string> | string>>;

export interface Project {
  readonly runSql: (sql: string) => Promise<void>;
  /** As the project's owner. */
  readonly ask: (method: string, path: string, body?: unknown) => Promise<Answer>;
  readonly id: () => string;
}

/** A server of models that is not there: any name of a model leads to it. */
const configured = async ({ ask, id }: Project, answer: string): Promise<string> => {
  const body = { provider: 'openai', api_key: 'sk-of-nobody-0123456789', base_url: 'http://127.0.0.1:9/v1' };
  const made = await ask('POST', `/projects/${id()}/ai/providers`, body);
  if (made.status > 201) throw new Error(made.text);
  return answer;
};

/** With a document in it that may be lost. */
const collectionFor = async ({ ask, id, runSql }: Project): Promise<string> => {
  const name = uniqueName('collection');
  const made = await ask('POST', `/projects/${id()}/ai/vectors/collections`, { name, dimensions: 3 });
  if (made.status !== 201) throw new Error(made.text);
  await runSql(`insert into ${name} (id, content, embedding, content_hash) values ('lost', 'x', '[1,2,3]', '')`);
  return name;
};

/** A provider that users sign in with. */
const upstreamFor = async ({ ask, id }: Project): Promise<string> => {
  const body = { client_id: 'nobody', client_secret: 'a secret of nobody' };
  const made = await ask('PUT', `/projects/${id()}/auth/providers/google`, body);
  if (made.status !== 200) throw new Error(made.text);
  return 'google';
};

/** A flag, and a segment of the same key that no rule names. */
const flagFor = async ({ ask, id }: Project): Promise<string> => {
  const key = uniqueName('flag');
  const flag = await ask('POST', `/projects/${id()}/flags`, { key });
  const segment = await ask('POST', `/projects/${id()}/segments`, { key, keys: [] });
  for (const made of [flag, segment]) if (made.status !== 201) throw new Error(made.text);
  return key;
};

const environmentFor = async ({ ask, id }: Project): Promise<string> => {
  const name = uniqueName('env');
  const made = await ask('POST', `/projects/${id()}/environments`, { name });
  if (made.status !== 201) throw new Error(made.text);
  return name;
};

/** Something real for a parameter of a path, where its name means something else in one area. */
export const areaValues = (project: Project): Readonly<Record<string, Values>> => ({
  // The id of nobody.
  accounts: { id: () => crypto.randomUUID() },
  data: openValues(project.runSql),
  email: { type: () => 'signup' },
  flags: {
    key: () => flagFor(project),
    name: () => environmentFor(project),
    schedule_id: () => crypto.randomUUID(),
  },
  auth: { provider: () => upstreamFor(project) },
  ai: {
    model: () => configured(project, 'gpt-4o'),
    provider: () => configured(project, 'openai'),
    collection: () => collectionFor(project),
    document: () => 'lost',
  },
});
