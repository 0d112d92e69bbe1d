import { type InProject, listAll } from '../../cli.ts';
import { notFound } from '../../errors.ts';
import { cleanLine, didYouMean } from '../../text.ts';

/** A function as the list of the API has it. */
export interface ListedFunction {
  readonly id: string;
  readonly slug: string;
  readonly name: string;
  readonly language: string;
  readonly access: string;
  readonly entry_point: string;
  readonly entrypoint: string | null;
  readonly timeout_ms: number;
  readonly memory_mb: number;
  readonly version: number;
  readonly updated_at: string;
}

export const listFunctions = (project: InProject): Promise<ListedFunction[]> =>
  listAll<ListedFunction>(project, `${project.path}/functions`, 'functions');

/** @throws {Failure} `not_found` */
export const findFunction = async (project: InProject, slug: string): Promise<ListedFunction> => {
  const functions = await listFunctions(project);
  const found = functions.find((one) => one.slug === slug || one.id === slug);
  if (found) return found;
  const slugs = functions.map((one) => one.slug);
  throw notFound(
    `There is no function ${cleanLine(slug)}.${didYouMean(slug, slugs)}`,
    'List them with `plinth functions list`.',
  );
};
