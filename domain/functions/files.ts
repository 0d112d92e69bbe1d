import { ServiceError } from '#lib/errors.ts';
import type { Language } from './store.ts';

/** The files of a function, as they travel and are stored: one text, which nobody on the event loop parses. */
export interface PackedFiles {
  /** JSON text, `{path: text}`. */
  readonly text: string;
  readonly paths: readonly string[];
  /** The length of all paths and texts, in UTF-8. */
  readonly bytes: number;
}

interface Fault {
  readonly path: string;
  readonly message: string;
}

/** Large packages have some 1,500. */
const maxFiles = 2000;
const maxPathLength = 200;
const maxFaults = 20;

// `__proto__` would be lost where files are kept by their paths.
const isName = (part: string): boolean => part !== '' && part !== '.' && part !== '..' && part !== '__proto__';

const faultOfPath = (path: string): string | null => {
  if (path === '' || path.length > maxPathLength) return `has a path of 1 to ${maxPathLength} characters`;
  if (/[\p{Cc}\\:]/u.test(path) || !path.isWellFormed())
    return 'has a path with a control character, a backslash or a colon';
  if (path.startsWith('/')) return 'has a path that is not relative';
  return path.split('/').every(isName) ? null : 'has a path with a part that is no name';
};

const faultOfText = (text: unknown): string | null => {
  if (typeof text !== 'string') return 'must be text';
  if (!text.isWellFormed()) return 'must be well-formed Unicode';
  return text.includes('\0') ? 'must not contain NUL' : null;
};

/** On some machines of developers the names of two files would be those of one. */
const sameName = (path: string): string => path.normalize('NFC').toLowerCase();

const faultsBetween = (paths: readonly string[]): Fault[] => {
  const taken = new Map<string, string>();
  const folders = new Set<string>();
  const faults: Fault[] = [];
  for (const path of paths) {
    const name = sameName(path);
    const other = taken.get(name);
    if (other !== undefined) faults.push({ path: `files.${path}`, message: `has the same path as ${other}` });
    taken.set(name, path);
    for (let at = name.indexOf('/'); at !== -1; at = name.indexOf('/', at + 1)) folders.add(name.slice(0, at));
  }
  for (const path of paths)
    if (folders.has(sameName(path))) faults.push({ path: `files.${path}`, message: 'is a file and a folder' });
  return faults;
};

const faultOfNumber = (paths: readonly string[]): string | null => {
  if (paths.length === 0) return 'must have at least one file';
  return paths.length > maxFiles ? `must have at most ${maxFiles} files` : null;
};

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const faultsOf = (files: Readonly<Record<string, unknown>>): Fault[] => {
  const paths = Object.keys(files);
  const number = faultOfNumber(paths);
  if (number !== null) return [{ path: 'files', message: number }];
  const own = paths.flatMap((path) => {
    const message = faultOfPath(path) ?? faultOfText(files[path]);
    return message === null ? [] : [{ path: `files.${path.slice(0, maxPathLength)}`, message }];
  });
  return own.length > 0 ? own : faultsBetween(paths);
};

/**
 * The files of a body that was parsed. Takes as long as the files are large: not for the event loop.
 * @returns what is wrong with them, when anything is
 */
export const packFiles = (files: unknown): PackedFiles | { readonly faults: readonly Fault[] } => {
  if (!isObject(files)) return { faults: [{ path: 'files', message: 'must be an object of texts by their paths' }] };
  const faults = faultsOf(files).slice(0, maxFaults);
  if (faults.length > 0) return { faults };
  const text = JSON.stringify(files);
  const bytes = Object.entries(files).reduce(
    (sum, [path, content]) => sum + Buffer.byteLength(path) + Buffer.byteLength(String(content)),
    0,
  );
  return { text, paths: Object.keys(files), bytes };
};

const usualEntries = {
  javascript: ['index.ts', 'index.js', 'index.mjs'],
  python: ['main.py', 'index.py'],
} as const satisfies Record<Language, readonly string[]>;

const codeFile = {
  javascript: /\.(?:[cm]?[jt]s|[jt]sx)$/,
  // Its path is the name of a module.
  python: /^(?:[A-Za-z_]\w*\/)*[A-Za-z_]\w*\.py$/,
} as const satisfies Record<Language, RegExp>;

const invalid = (message: string): ServiceError =>
  new ServiceError('validation_failed', 'The body is not valid.', { details: [{ path: 'entrypoint', message }] });

/**
 * The file whose handler runs: the one that was named, else the usual one.
 * @throws {ServiceError} `validation_failed`
 */
export const entrypointOf = (language: Language, paths: readonly string[], named: string | undefined): string => {
  const usual: readonly string[] = usualEntries[language];
  const found = named ?? usual.find((path) => paths.includes(path));
  if (found === undefined) throw invalid(`is required where no file is called ${usual.join(' or ')}`);
  if (!paths.includes(found)) throw invalid('is not the path of one of the files');
  if (!codeFile[language].test(found)) throw invalid(`is not the path of a file of ${language}`);
  return found;
};
