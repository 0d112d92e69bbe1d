import { type InProject, listAll } from '../../cli.ts';
import { notFound } from '../../errors.ts';
import { cleanLine, didYouMean } from '../../text.ts';
import type { Schemas } from '../../types.ts';

/** A function as the list of the API has it. */
export type ListedFunction = Schemas['ListedFunction'];

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
