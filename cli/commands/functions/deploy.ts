import path from 'node:path';
import { type InProject, type Run, call, confirmFirst, inFolder, inProject, isOn } from '../../cli.ts';
import { Failure, exits, notFound, usage } from '../../errors.ts';
import { send } from '../../http.ts';
import { bytesText, cleanLine, didYouMean } from '../../text.ts';
import { type ListedFunction, listFunctions } from './find.ts';
import { type LocalFunction, functionFolders, readFunction } from './folder.ts';
import type { Schemas } from '../../types.ts';

interface Deployed {
  readonly slug: string;
  readonly outcome: 'created' | 'updated' | 'unchanged';
  readonly version: number;
  readonly bytes: number;
  /** Why each run evaluates the module anew; left out: it need not, or it is not known. */
  readonly cold?: string;
}

type FunctionWithCode = Schemas['Function'];

const isSame = (a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean => {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && a[name] === b[name]);
};

/** Whether the platform has exactly this. */
const isUnchanged = (local: LocalFunction, there: FunctionWithCode): boolean => {
  const source =
    'code' in local.source
      ? there.files === null && there.code === local.source.code
      : isSame(local.source.files, there.files ?? {});
  const settings = Object.entries(local.settings) as [keyof ListedFunction, unknown][];
  return source && settings.every(([name, value]) => there[name] === value);
};

/** Shorter ones are evaluated in each run, which takes no longer. */
const largeBytes = 64 * 1024;

/** Why the module of a large function starts cold, as its deploy found out. */
const coldOf = async (project: InProject, id: string, bytes: number): Promise<{ readonly cold?: string }> => {
  if (bytes < largeBytes) return {};
  const { warm_start: warm } = await call<FunctionWithCode>(project, `${project.path}/functions/${id}`);
  return warm?.snapshot === false ? { cold: warm.reason ?? '' } : {};
};

/** Deploys a function unless the platform has exactly this. */
export const deployOne = async (
  project: InProject,
  local: LocalFunction,
  there: ListedFunction | undefined,
): Promise<Deployed> => {
  const { slug, bytes, language, settings, source } = local;
  if (there === undefined) {
    const body = { name: slug, language, ...settings, ...source };
    const made = await call<ListedFunction>(project, `${project.path}/functions`, { method: 'POST', body });
    const cold = await coldOf(project, made.id, bytes);
    return { slug, outcome: 'created', version: made.version, bytes, ...cold };
  }
  if (there.language !== language) {
    throw usage(
      `${slug} is in ${there.language} there, and in ${language} here.`,
      `Delete it first: plinth functions delete ${slug}`,
    );
  }
  const where = `${project.path}/functions/${there.id}`;
  const present = await call<FunctionWithCode>(project, where);
  if (isUnchanged(local, present)) return { slug, outcome: 'unchanged', version: there.version, bytes };
  const changed = await call<ListedFunction>(project, where, { method: 'PATCH', body: { ...settings, ...source } });
  const cold = await coldOf(project, there.id, bytes);
  return { slug, outcome: 'updated', version: changed.version, bytes, ...cold };
};

/** Names of functions, or the path of a folder of one. */
const slugOf = (given: string): string => path.basename(given.replace(/[/\\]+$/, ''));

const chosen = (folders: readonly string[], given: readonly string[], where: string): readonly string[] => {
  if (given.length === 0) {
    if (folders.length > 0) return folders;
    throw notFound(`There are no functions in ${where}.`, 'Make one with `plinth functions new <name>`.');
  }
  return [...new Set(given.map(slugOf))].map((slug) => {
    if (folders.includes(slug)) return slug;
    throw notFound(`There is no folder ${where}/${cleanLine(slug)}.${didYouMean(slug, folders)}`);
  });
};

const atOnce = 4;

/** Runs the work on all, some at a time, and gives the results in order. */
const inParallel = async <T, R>(all: readonly T[], work: (one: T) => Promise<R>): Promise<R[]> => {
  const results: R[] = [];
  const queue = [...all.entries()];
  const next = async (): Promise<void> => {
    for (let entry = queue.shift(); entry !== undefined; entry = queue.shift()) {
      results[entry[0]] = await work(entry[1]);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, next));
  return results;
};

/** Functions of the project that have no folder here. */
const prune = async (run: Run, project: InProject, extra: readonly ListedFunction[]): Promise<string[]> => {
  if (extra.length === 0) return [];
  const slugs = extra.map(({ slug }) => slug);
  await confirmFirst(
    run,
    `These functions have no folder here and will be deleted with their versions: ${slugs.join(', ')}.`,
  );
  for (const { id } of extra) await send(project, `${project.path}/functions/${id}`, { method: 'DELETE' });
  return slugs;
};

const named = (slug: string, error: unknown): unknown =>
  error instanceof Failure && error.exit !== exits.interrupted
    ? new Failure(error.exit, error.body.code, `${slug}: ${error.message}`, error.body)
    : error;

const lineOf = ({ slug, outcome, version, bytes, cold }: Deployed): string =>
  `${slug}  ${outcome}  version ${version}  ${bytesText(bytes)}` +
  (cold === undefined ? '' : `\n  Its module is evaluated in each run: ${cleanLine(cold)}`);

export const deploy = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const root = inFolder(run, 'functions');
  const folders = await functionFolders(root);
  const slugs = chosen(folders, run.args, 'plinth/functions');
  if (isOn(run, 'prune') && run.args.length > 0) throw usage('--prune is for all functions: name none.');
  const there = await listFunctions(project);
  // All are read before one is deployed: a mistake in the last one changes nothing.
  const locals = await inParallel(slugs, (slug) =>
    readFunction(path.join(root, slug)).catch((error: unknown) => {
      throw named(slug, error);
    }),
  );
  const deployed = await inParallel(locals, async (local) => {
    const done = await deployOne(
      project,
      local,
      there.find(({ slug }) => slug === local.slug),
    ).catch((error: unknown) => {
      throw named(local.slug, error);
    });
    run.cli.out.say(lineOf(done));
    return done;
  });
  const extra = isOn(run, 'prune') ? there.filter(({ slug }) => !folders.includes(slug)) : [];
  const pruned = await prune(run, project, extra);
  if (run.cli.out.isJson) run.cli.out.data({ deployed, deleted: pruned }, '');
};
