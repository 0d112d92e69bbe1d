import { watch } from 'node:fs';
import path from 'node:path';
import { type InProject, type Run, call, inFolder, inProject, requireArgument, shownPath } from '../../cli.ts';
import { Failure, notFound } from '../../errors.ts';
import { followEvents } from '../../events.ts';
import { send } from '../../http.ts';
import { clean, cleanLine, didYouMean } from '../../text.ts';
import type { Schemas } from '../../types.ts';
import { deployOne } from './deploy.ts';
import { listFunctions } from './find.ts';
import { type LocalFunction, functionFolders, readFunction } from './folder.ts';

const maxSlug = 63;

/** The name of a function for the time of a command, beside the one that is deployed. */
export const besideSlug = (slug: string, suffix: string): string =>
  `${slug.slice(0, maxSlug - suffix.length - 1)}-${suffix}`;

/** The folder of a function. @throws {Failure} `not_found` */
export const folderOf = async (run: Run, slug: string): Promise<string> => {
  const root = inFolder(run, 'functions');
  const folders = await functionFolders(root);
  if (folders.includes(slug)) return path.join(root, slug);
  throw notFound(`There is no folder plinth/functions/${cleanLine(slug)}.${didYouMean(slug, folders)}`);
};

/** Deploys what a folder holds under another name. @returns its id */
export const deployBeside = async (
  project: InProject,
  local: LocalFunction,
  slug: string,
): Promise<{ readonly id: string; readonly outcome: string }> => {
  const present = (await listFunctions(project)).find((one) => one.slug === slug);
  const { outcome } = await deployOne(project, { ...local, slug }, present);
  const id = present?.id ?? (await listFunctions(project)).find((one) => one.slug === slug)?.id;
  if (id === undefined) throw notFound(`The function ${cleanLine(slug)} was deleted meanwhile.`);
  return { id, outcome };
};

const cleanUpMs = 10_000;

/** Deletes the function also after Ctrl-C; one that is gone is no matter. */
export const removeBeside = async (project: InProject, id: string): Promise<void> => {
  const way = { ...project, signal: AbortSignal.timeout(cleanUpMs) };
  await send(way, `${project.path}/functions/${id}`, { method: 'DELETE', accept: [404] }).catch(() => undefined);
};

const quietMs = 150;

/** Calls `work` once after each burst of changes below the folder, one call at a time, until the signal. */
const onChanges = (folder: string, signal: AbortSignal, work: () => Promise<void>): void => {
  let timer: NodeJS.Timeout | undefined;
  let last: Promise<void> = Promise.resolve();
  const watcher = watch(folder, { recursive: true, signal }, () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      last = last.then(work);
    }, quietMs);
  });
  // The folder may be removed; the signal ends the wait of the command.
  watcher.on('error', () => undefined);
};

const logOf = (data: string): Schemas['LogLine'] | undefined => {
  try {
    return JSON.parse(data) as Schemas['LogLine'];
  } catch {
    return undefined;
  }
};

const followLog = (run: Run, project: InProject, id: string): Promise<void> => {
  const { out } = run.cli;
  return followEvents({
    target: () => inProject(run),
    path: `${project.path}/logs?function=${id}`,
    on: ({ event, data }) => {
      const line = event === 'log' ? logOf(data) : undefined;
      if (line)
        out.line(line, `${out.dim(cleanLine(line.ts))} ${cleanLine(line.level).padEnd(5)} ${clean(line.message)}`);
    },
    onReconnect: () => out.say('The platform does not answer; trying again …'),
  });
};

/** Deploys again; a mistake is shown, and the next change tries anew. */
const redeploy = async (run: Run, project: InProject, folder: string, slug: string): Promise<void> => {
  const { out, signal } = run.cli;
  try {
    const { outcome } = await deployBeside(project, await readFunction(folder), slug);
    if (outcome !== 'unchanged') out.say(`${slug}  ${outcome}`);
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof Failure)) throw error;
    out.error(error.body);
  }
};

/** Watches a folder, deploys each change under a name of its own, and prints its log, until Ctrl-C. */
export const serve = async (run: Run): Promise<void> => {
  const { out, signal } = run.cli;
  const given = requireArgument(run, 0, 'The function');
  const project = await inProject(run);
  const folder = await folderOf(run, given);
  const slug = besideSlug(given, 'dev');
  const { rest_url: url } = await call<Schemas['Project']>(project, project.path);
  const { id } = await deployBeside(project, await readFunction(folder), slug);
  out.say(`${shownPath(run, folder)} is served as ${cleanLine(`${url}/functions/v1/${slug}`)}. Ctrl-C ends it.`);
  onChanges(folder, signal, () => redeploy(run, project, folder, slug));
  try {
    await followLog(run, project, id);
  } finally {
    await removeBeside(project, id);
  }
};
