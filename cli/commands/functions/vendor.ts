import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readFile, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { failed, systemCode } from '../../errors.ts';
import { randomDigits, readIfThere } from '../../files.ts';
import { cleanLine } from '../../text.ts';

/*
 * Packages of a Python function: those of its `requirements.txt`, installed by the developer's own pip into a folder
 * beside the function and sent with its files. The platform runs sources alone, so packages that were compiled are
 * refused by name.
 */

export const requirementsName = 'requirements.txt';
/** Begins with a dot: it is no part of the function, and is made anew from the requirements. */
const folderName = '.plinth-packages';

const compiled = /\.(?:so|pyd|dylib|dll)$/;
/** Metadata, bytecode and programs; nothing of them is imported. */
const unneeded = /(?:\.(?:dist-info|egg-info|data)|^(?:bin|__pycache__))$/;
const sources = /\.(?:py|pyi|json|txt|toml|pem)$/;

const lastOf = (text: string): string => cleanLine(text.trim().split('\n').at(-1) ?? '');

/** Runs pip; PLINTH_PYTHON names another Python. */
const runPip = (args: readonly string[], cwd: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const program = process.env['PLINTH_PYTHON'] ?? 'python3';
    const child = spawn(program, ['-m', 'pip', ...args], { cwd, stdio: ['ignore', 'ignore', 'pipe'] });
    let words = '';
    child.stderr.on('data', (piece: Buffer) => (words = (words + piece.toString()).slice(-10_000)));
    child.on('error', (error) => {
      const hint = 'Install Python with pip, or name it by PLINTH_PYTHON.';
      reject(systemCode(error) === 'ENOENT' ? failed('no_python', `There is no ${cleanLine(program)}.`, hint) : error);
    });
    child.on('close', (code) => {
      if (code === 0) resolve();
      else reject(failed('packages', `pip could not install the packages: ${lastOf(words)}`));
    });
  });

const isThere = (folder: string): Promise<boolean> =>
  stat(folder).then(
    () => true,
    () => false,
  );

/** Installs once for the same requirements. @returns the folder with the packages */
const install = async (folder: string, requirements: string): Promise<string> => {
  const hash = createHash('sha256').update(requirements).digest('hex').slice(0, 16);
  const parent = path.join(folder, folderName);
  const target = path.join(parent, hash);
  if (await isThere(target)) return target;
  const next = path.join(parent, `${hash}.${randomDigits()}`);
  await mkdir(next, { recursive: true });
  await writeFile(path.join(parent, '.gitignore'), '*\n');
  try {
    const options = ['--quiet', '--disable-pip-version-check', '--no-input', '--no-compile'];
    await runPip(['install', ...options, '--target', next, '-r', requirementsName], folder);
    await rename(next, target);
  } finally {
    await rm(next, { recursive: true, force: true });
  }
  for (const name of await readdir(parent)) {
    if (name !== hash && name !== '.gitignore') await rm(path.join(parent, name), { recursive: true, force: true });
  }
  return target;
};

/** The texts of packages by their paths. @throws {Failure} for a package that was compiled */
const textsIn = async (root: string, below = ''): Promise<[string, string][]> => {
  const found: [string, string][] = [];
  const entries = await readdir(path.join(root, below), { withFileTypes: true });
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const name = below === '' ? entry.name : `${below}/${entry.name}`;
    if (unneeded.test(entry.name)) continue;
    if (entry.isDirectory()) found.push(...(await textsIn(root, name)));
    else if (compiled.test(entry.name)) {
      throw failed('compiled_package', `${cleanLine(name)} is compiled: the platform runs packages of Python alone.`);
    } else if (entry.isFile() && sources.test(entry.name)) {
      found.push([name, await readFile(path.join(root, name), 'utf8')]);
    }
  }
  return found;
};

/** The packages that a function of Python needs, as files beside its own. */
export const vendored = async (folder: string): Promise<Readonly<Record<string, string>>> => {
  const requirements = await readIfThere(path.join(folder, requirementsName));
  if (requirements === undefined || requirements.replaceAll(/#.*$/gm, '').trim() === '') return {};
  return Object.fromEntries(await textsIn(await install(folder, requirements)));
};
