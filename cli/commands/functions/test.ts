import { spawn } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { type InProject, type Run, inFolder, inProject } from '../../cli.ts';
import { failed, notFound, usage } from '../../errors.ts';
import { fileFailure, randomDigits } from '../../files.ts';
import { functionFolders, readFunction } from './folder.ts';
import { besideSlug, deployBeside, folderOf, removeBeside } from './serve.ts';

const testFile = /\.test\.[cm]?[jt]s$/;
const typed = /\.test\.[cm]?ts$/;

/** Files of tests below a folder, packages left out. */
const testsIn = async (folder: string): Promise<string[]> => {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    throw fileFailure('read', folder, error);
  });
  const found: string[] = [];
  for (const entry of entries) {
    if (entry.name === 'node_modules' || entry.name.startsWith('.')) continue;
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) found.push(...(await testsIn(file)));
    else if (testFile.test(entry.name)) found.push(file);
  }
  return found.toSorted();
};

/**
 * Set before the tests: `invoke(payload)` calls the function as it is in the folder, and answers `{status, result,
 * error, logs}`.
 */
const preload = `
const { PLINTH_TEST_INVOKE: url, PLINTH_TEST_TOKEN: token } = process.env;
globalThis.invoke = async (payload = null) => {
  const response = await fetch(url, {
    method: 'POST',
    headers: { authorization: 'Bearer ' + token, 'content-type': 'application/json', prefer: 'wait=60' },
    body: JSON.stringify({ payload }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.code + ': ' + answer.message);
  return answer;
};`;

const runNode = (run: Run, project: InProject, id: string, files: readonly string[]): Promise<number | null> =>
  new Promise((resolve, reject) => {
    const env = {
      ...process.env,
      PLINTH_TEST_INVOKE: `${project.url}${project.path}/functions/${id}/invoke`,
      PLINTH_TEST_TOKEN: project.token ?? '',
      // Within a test run of its own, Node would run no tests and call that a success.
      NODE_TEST_CONTEXT: undefined,
    };
    const args = ['--import', `data:text/javascript,${encodeURIComponent(preload)}`, '--test', ...files];
    // The output of the tests is for people; the answer of the command is how they ended.
    const child = spawn(process.execPath, args, { cwd: run.cli.cwd, env, stdio: ['ignore', 'pipe', 'inherit'] });
    child.stdout.pipe(process.stderr, { end: false });
    const stop = (): void => void child.kill('SIGTERM');
    run.cli.signal.addEventListener('abort', stop, { once: true });
    child.on('error', reject);
    child.on('close', (code) => {
      run.cli.signal.removeEventListener('abort', stop);
      resolve(code);
    });
  });

const requireTypes = (files: readonly string[]): void => {
  const first = files.find((file) => typed.test(file));
  const strips: unknown = Reflect.get(process.features, 'typescript');
  if (first === undefined || Boolean(strips)) return;
  throw failed(
    'no_typescript',
    `Node ${process.version} cannot run ${path.basename(first)}.`,
    'Use Node 22.18 or newer, or write the tests in JavaScript.',
  );
};

const testOne = async (run: Run, project: InProject, slug: string, files: readonly string[]): Promise<boolean> => {
  const local = await readFunction(await folderOf(run, slug));
  const { id } = await deployBeside(project, local, besideSlug(slug, `test-${randomDigits()}`));
  try {
    return (await runNode(run, project, id, files)) === 0;
  } finally {
    await removeBeside(project, id);
  }
};

const testsOf = async (run: Run): Promise<ReadonlyMap<string, readonly string[]>> => {
  const root = inFolder(run, 'functions');
  const slugs = run.args.length > 0 ? run.args : await functionFolders(root);
  const found = new Map<string, readonly string[]>();
  for (const slug of slugs) {
    const files = await testsIn(await folderOf(run, slug));
    if (files.length > 0) found.set(slug, files);
    else if (run.args.length > 0) throw notFound(`plinth/functions/${slug} has no tests: files called *.test.ts.`);
  }
  if (found.size === 0) throw usage('There are no tests: files called *.test.ts beside a function.');
  requireTypes([...found.values()].flat());
  return found;
};

/** Runs the tests beside functions against what is in their folders, each deployed under a name of its own meanwhile. */
export const testFunctions = async (run: Run): Promise<void> => {
  const { out, signal } = run.cli;
  const tests = await testsOf(run);
  const project = await inProject(run);
  const results: { slug: string; passed: boolean }[] = [];
  for (const [slug, files] of tests) {
    signal.throwIfAborted();
    const passed = await testOne(run, project, slug, files);
    results.push({ slug, passed });
    out.say(`${slug}  ${passed ? 'passed' : 'failed'}`);
  }
  if (out.isJson) out.data(results, '');
  const bad = results.filter(({ passed }) => !passed).map(({ slug }) => slug);
  if (bad.length > 0) throw failed('tests_failed', `The tests of ${bad.join(', ')} failed.`);
};
