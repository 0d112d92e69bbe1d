import { z } from 'zod';
import type { Example } from '#domain/examples/example.ts';
import { examples } from '#domain/examples/examples.ts';
import { makeFunction, makeTables } from '#domain/examples/make.ts';
import { ServiceError, notFound, toServiceError } from '#lib/errors.ts';
import { inProject, signedInWith } from '../access.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, namedObject, shownOnce } from '../fields.ts';
import { authorOf, requireServed, textsOfCode } from './functions.ts';

/** Example projects: what they are, and the tables and functions that one call makes. */

const area = 'examples';

const example = namedObject('Example', {
  name: z.string(),
  title: z.string(),
  summary: z.string(),
  makes: z.array(z.string()),
  code: z
    .object({ javascript: z.string(), python: z.string(), curl: z.string() })
    .describe(
      'Programs that call the project: `{{rest_url}}`, `{{publishable_key}}`, `{{secret_key}}` and the names of `values` stand for what is to be filled in.',
    ),
});

const exampleOf = (name: string): Example => {
  const found = examples.find((one) => one.name === name);
  if (found === undefined) throw notFound('example');
  return found;
};

/** Everything that can fail comes after the tables, which are whole by then: a second call goes on from there. */
const stopped = (error: unknown): ServiceError => {
  const { code, message, details } = toServiceError(error);
  return new ServiceError(code, message, {
    details,
    cause: error,
    hint: 'The tables of the example are there, its functions are not. The same call again goes on from here.',
  });
};

/** Its path would be that of a project otherwise: it comes before those. */
export const exampleListEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/examples',
    area,
    summary: 'Example projects, with programs that call them',
    access: signedInWith('read'),
    response: z.object({ examples: z.array(example), total: z.int() }),
    handle: () =>
      Promise.resolve({
        examples: examples.map(({ name, title, summary, makes, code }) => ({
          name,
          title,
          summary,
          makes: [...makes],
          code,
        })),
        total: examples.length,
      }),
  }),
];

export const exampleEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/examples/{example}',
    area,
    summary: 'Make the tables, rows, functions and schedules of an example; repeated, it makes what is missing',
    access: inProject('developer'),
    params: z.object({ project_id: id, example: z.string() }),
    status: 201,
    response: z.object({
      functions: z.array(z.object({ id, slug: z.string() })),
      values: shownOnce(z.record(z.string(), z.string())).describe(
        'Secrets that the programs need. Those that were made by this call appear here only.',
      ),
    }),
    prepare: async ({ params }, call) => {
      const { deps, project } = call;
      const wanted = exampleOf(params.example);
      await requireServed('javascript', call);
      const source = { language: 'javascript', entry_point: 'handler' } as const;
      const functions = [];
      for (const fn of wanted.functions) functions.push({ ...fn, texts: await textsOfCode(fn.code, source, call) });
      try {
        await deps.serialize(`migrations ${project.id}`, () => makeTables(deps.projects.tenantDb, project.id, wanted));
      } finally {
        deps.schemas.changed(project.id);
      }
      return functions;
    },
    handle: async ({ prepared: functions }, call) => {
      const made = [];
      try {
        for (const fn of functions) made.push(await makeFunction(call.db, call.project, fn, authorOf(call)));
      } catch (error) {
        throw stopped(error);
      }
      return {
        functions: made.map(({ id: functionId, slug }) => ({ id: functionId, slug })),
        values: Object.assign({}, ...made.map(({ secrets }) => secrets)) as Record<string, string>,
      };
    },
  }),
];
