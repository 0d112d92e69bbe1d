import { readFile, readdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { failed, systemCode, usage } from '../../errors.ts';
import { fileFailure, normal, readJsonFile } from '../../files.ts';
import { cleanLine } from '../../text.ts';
import { requirementsName, vendored } from './vendor.ts';

/** A folder below `plinth/functions`: a function as it is to be. */
export interface LocalFunction {
  readonly slug: string;
  readonly language: 'javascript' | 'python';
  readonly settings: Settings;
  /** Either the texts by their paths, or one bundle. */
  readonly source: { readonly files: Readonly<Record<string, string>> } | { readonly code: string };
  readonly bytes: number;
}

/** The settings of `plinth.json`, which the platform has fields for. */
interface Settings {
  readonly entrypoint?: string;
  readonly entry_point?: string;
  readonly timeout_ms?: number;
  readonly memory_mb?: number;
  readonly access?: string;
}

const manifestName = 'plinth.json';
const slugForm = /^[a-z0-9][a-z0-9-]{0,62}$/;
const settingTypes = {
  entrypoint: 'string',
  entry_point: 'string',
  timeout_ms: 'number',
  memory_mb: 'number',
  access: 'string',
} as const;

export const requireSlug = (slug: string): string => {
  if (slugForm.test(slug)) return slug;
  throw usage(`"${cleanLine(slug)}" cannot be a function's name: a-z, 0-9 and - are possible.`);
};

interface Manifest {
  readonly language: string | undefined;
  readonly settings: Settings;
}

const readManifest = async (folder: string): Promise<Manifest> => {
  const value = (await readJsonFile(path.join(folder, manifestName))) ?? {};
  const { language, ...rest } = value;
  for (const [name, given] of Object.entries(rest)) {
    const type = Object.hasOwn(settingTypes, name)
      ? (settingTypes as Readonly<Record<string, string>>)[name]
      : undefined;
    const where = `${cleanLine(path.basename(folder))}/${manifestName}`;
    if (type === undefined) throw usage(`${where} has an unknown setting "${cleanLine(name)}".`);
    if (typeof given !== type) throw usage(`${where}: ${name} must be a ${type}.`);
  }
  return { language: typeof language === 'string' ? language : undefined, settings: rest };
};

const skipped = new Set([
  'node_modules',
  '__pycache__',
  manifestName,
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  requirementsName,
]);
const isSkipped = (name: string): boolean =>
  skipped.has(name) || name.startsWith('.') || /\.test\.[cm]?[jt]sx?$/.test(name);

const maxFiles = 2000;

/** The paths below a folder, with `/` between their parts. */
const pathsIn = async (folder: string, below = ''): Promise<string[]> => {
  const entries = await readdir(path.join(folder, below), { withFileTypes: true }).catch((error: unknown) => {
    throw fileFailure('read', folder, error);
  });
  const found: string[] = [];
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const name = below === '' ? entry.name : `${below}/${entry.name}`;
    if (isSkipped(entry.name)) continue;
    if (entry.isDirectory()) found.push(...(await pathsIn(folder, name)));
    else if (entry.isFile()) found.push(name);
    if (found.length > maxFiles) throw usage(`${cleanLine(folder)} has more than ${maxFiles} files.`);
  }
  return found;
};

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false });

const readSource = async (folder: string, name: string): Promise<string> => {
  const bytes = await readFile(path.join(folder, name)).catch((error: unknown) => {
    throw fileFailure('read', name, error);
  });
  try {
    return normal(decoder.decode(bytes));
  } catch {
    throw usage(
      `${cleanLine(path.basename(folder))}/${cleanLine(name)} is not text in UTF-8.`,
      'Put data into storage, or encode it.',
    );
  }
};

const entries = {
  javascript: ['index.ts', 'index.tsx', 'index.js', 'index.mjs'],
  python: ['main.py', 'index.py'],
} as const;

const languageOf = (folder: string, given: string | undefined, names: readonly string[]): 'javascript' | 'python' => {
  if (given === 'javascript' || given === 'typescript') return 'javascript';
  if (given === 'python') return 'python';
  if (given !== undefined)
    throw usage(`The language "${cleanLine(given)}" is not one of javascript, typescript and python.`);
  if (entries.javascript.some((name) => names.includes(name))) return 'javascript';
  if (entries.python.some((name) => names.includes(name))) return 'python';
  throw usage(
    `${cleanLine(path.basename(folder))} has no file to begin with.`,
    `It is called ${[...entries.javascript, ...entries.python].join(', ')}, or named by "entrypoint" in ${manifestName}.`,
  );
};

const code = /\.[cm]?[jt]sx?$/;
const imported = /\b(?:from|import)\s*\(?\s*['"]([^'"\n]+)['"]/g;
/** Packages that the platform brings, or that are types alone. */
const brought = /^(?:node:|plinth\/functions$)/;

/** Whether a source needs a package of the project's own `node_modules`. */
const needsPackages = (files: Readonly<Record<string, string>>): boolean =>
  Object.entries(files)
    .filter(([name]) => code.test(name))
    .some(([, text]) =>
      [...text.matchAll(imported)].some(([, from = '']) => !/^[./]/.test(from) && !brought.test(from)),
    );

interface Bundler {
  readonly build: (options: Readonly<Record<string, unknown>>) => Promise<{
    readonly outputFiles: readonly { readonly text: string }[];
  }>;
}

/** The bundler among the project's own packages: this program brings none. */
const loadBundler = async (folder: string): Promise<Bundler> => {
  try {
    const file = createRequire(path.join(folder, 'index.js')).resolve('esbuild');
    const loaded = (await import(pathToFileURL(file).href)) as Bundler & { readonly default?: Bundler };
    return loaded.default ?? loaded;
  } catch (error) {
    if (systemCode(error) !== 'MODULE_NOT_FOUND') throw error;
    throw failed(
      'no_bundler',
      `${cleanLine(path.basename(folder))} imports npm packages, and there is no esbuild to bundle them with.`,
      'npm install --save-dev esbuild',
    );
  }
};

const bundle = async (folder: string, entrypoint: string): Promise<string> => {
  const { build } = await loadBundler(folder);
  try {
    const { outputFiles } = await build({
      absWorkingDir: folder,
      entryPoints: [entrypoint],
      bundle: true,
      write: false,
      format: 'esm',
      platform: 'neutral',
      mainFields: ['module', 'main'],
      conditions: ['import', 'worker', 'default'],
      target: 'es2022',
      external: ['node:*'],
      logLevel: 'silent',
    });
    return outputFiles[0]?.text ?? '';
  } catch (error) {
    throw failed('bundle', error instanceof Error ? error.message : String(error));
  }
};

/** Reads a folder. @throws {Failure} */
export const readFunction = async (folder: string): Promise<LocalFunction> => {
  const slug = requireSlug(path.basename(folder));
  const { language: given, settings } = await readManifest(folder);
  const names = await pathsIn(folder);
  const named = settings.entrypoint;
  if (named !== undefined && !names.includes(named)) throw usage(`${slug} has no file ${cleanLine(named)}.`);
  const language = languageOf(folder, given ?? (named?.endsWith('.py') ? 'python' : named && 'javascript'), names);
  const texts = await Promise.all(names.map(async (name) => [name, await readSource(folder, name)] as const));
  const files = Object.fromEntries(texts);
  const entrypoint = named ?? entries[language].find((name) => names.includes(name)) ?? '';
  if (language === 'javascript' && needsPackages(files)) {
    const text = await bundle(folder, entrypoint);
    const { entrypoint: _entrypoint, ...rest } = settings;
    return { slug, language, settings: rest, source: { code: text }, bytes: Buffer.byteLength(text) };
  }
  // Files of the function win over those of a package.
  const all = language === 'python' ? { ...(await vendored(folder)), ...files } : files;
  const bytes = Object.values(all).reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  return { slug, language, settings: { ...settings, entrypoint }, source: { files: all }, bytes };
};

/** The folders below `plinth/functions`. */
export const functionFolders = async (folder: string): Promise<string[]> => {
  try {
    const found = await readdir(folder, { withFileTypes: true });
    const folders = found.filter((entry) => entry.isDirectory() && !isSkipped(entry.name));
    return folders.map(({ name }) => name).toSorted();
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return [];
    throw fileFailure('read', folder, error);
  }
};
