import path from 'node:path/posix';
import { type BuildFailure, type BuildOptions, type BuildResult, type Loader, type Plugin, build } from 'esbuild';
import { ServiceError } from '#lib/errors.ts';
import {
  asPromise,
  asStrict,
  asWritten,
  asyncOptions,
  checkHandler,
  describe,
  generatedOf,
  inspectModule,
  isAsyncModule,
  withoutSourceMap,
} from './compile.ts';
import { type Generated, samePlaces } from './places.ts';

interface FileSet {
  /** The text of each file by its path. */
  readonly files: Readonly<Record<string, string>>;
  /** Path of the file whose exports count. */
  readonly entrypoint: string;
}

/** Stands before each path in texts of esbuild: a name of ours keeps it away from the machine's own files. */
const space = 'files';
const withoutSpace = (text: string): string => text.replaceAll(`${space}:`, '');

const codeLoaders: Readonly<Record<string, Loader>> = {
  '.ts': 'ts',
  '.mts': 'ts',
  '.cts': 'ts',
  '.tsx': 'tsx',
  '.js': 'js',
  '.mjs': 'js',
  '.cjs': 'js',
  '.jsx': 'jsx',
  '.json': 'json',
};
const extensions = Object.keys(codeLoaders);

/** TypeScript writes the name of what its file becomes. */
const writtenAs: Readonly<Record<string, readonly string[]>> = {
  '.js': ['.ts', '.tsx'],
  '.mjs': ['.mts'],
  '.cjs': ['.cts'],
  '.jsx': ['.tsx'],
};

const candidatesOf = (target: string): string[] => {
  const extension = path.extname(target);
  const stem = target.slice(0, target.length - extension.length);
  return [
    target,
    ...(writtenAs[extension] ?? []).map((other) => stem + other),
    ...extensions.map((other) => target + other),
    ...extensions.map((other) => path.join(target, `index${other}`)),
  ];
};

const isRelative = (name: string): boolean => /^\.{1,2}(?:\/|$)/.test(name);

/** An import that leaves the files: of another package, of Node, or of a file that was not sent. */
interface Missing {
  readonly name: string;
  readonly importer: string;
}

const bundleCommand = 'plinth functions deploy';

const notBundled = (missing: readonly Missing[]): ServiceError => {
  const [first] = missing;
  const isFile = first !== undefined && isRelative(first.name);
  return new ServiceError(
    'import_not_bundled',
    `${first?.importer} imports "${first?.name}", which is not among the function's files.`,
    {
      details: missing.map(({ name, importer }) => ({ path: `files.${importer}`, message: `import of "${name}"` })),
      hint: isFile
        ? 'Send every file that is imported; paths are relative to the file that imports.'
        : `npm packages come bundled by \`${bundleCommand}\`. Modules of Node do not exist in functions.`,
    },
  );
};

const maxReported = 20;

/** Answers every import from the given files: esbuild itself looks for none, so it reads nothing of the machine. */
const filesPlugin = ({ files, entrypoint }: FileSet, missing: Missing[]): Plugin => ({
  name: space,
  setup: (esbuild) => {
    esbuild.onResolve({ filter: /.*/ }, ({ path: name, importer, kind }) => {
      if (kind === 'entry-point') return { path: entrypoint, namespace: space };
      const target = isRelative(name) ? path.join(path.dirname(importer), name) : name;
      const found = isRelative(name) ? candidatesOf(target).find((one) => Object.hasOwn(files, one)) : undefined;
      if (found !== undefined) return { path: found, namespace: space };
      // Libraries try to load what may be there, and go on without it.
      if (!isRelative(name) && kind !== 'import-statement') return { path: name, external: true };
      if (missing.length < maxReported) missing.push({ name: name.slice(0, 200), importer });
      return { errors: [{ text: `"${name.slice(0, 200)}" is not among the files` }] };
    });
    esbuild.onLoad({ filter: /.*/, namespace: space }, ({ path: file, with: attributes }) => {
      const loader = loaderOf(file, attributes['type']);
      if (loader === null) return { errors: [{ text: `"with { type: '${attributes['type']}' }" is not supported` }] };
      const text = files[file] ?? '';
      return { contents: loader === 'text' ? text : withoutSourceMap(text), loader };
    });
  },
});

const loaderOf = (file: string, type: string | undefined): Loader | null => {
  if (type === 'text') return 'text';
  if (type !== undefined && type !== 'json') return null;
  return type === 'json' ? 'json' : (codeLoaders[path.extname(file)] ?? 'text');
};

const refusalOf = (error: unknown, missing: readonly Missing[]): unknown => {
  if (missing.length > 0) return notBundled(missing);
  const { errors = [] } = error as Partial<BuildFailure>;
  if (errors.length === 0) return error;
  return new ServiceError('validation_failed', "The function's code does not parse.", {
    details: errors.slice(0, maxReported).map((message) => ({
      path: `files.${withoutSpace(message.location?.file ?? '')}`.replace(/\.$/, ''),
      message: withoutSpace(describe(message)),
    })),
  });
};

type Built = BuildResult<{ write: false; metafile: true }>;

const buildWith = async (changes: Pick<BuildOptions, 'format' | 'define'>, set: FileSet): Promise<Built> => {
  const missing: Missing[] = [];
  const options = { ...asyncOptions, ...changes, write: false as const, metafile: true as const };
  return build({ ...options, entryPoints: [set.entrypoint], plugins: [filesPlugin(set, missing)] }).catch(
    (error: unknown) => {
      throw isAsyncModule(error) ? error : refusalOf(error, missing);
    },
  );
};

const commonJs = async (set: FileSet): Promise<Generated> => {
  const { outputFiles, metafile } = await buildWith({ format: 'cjs', define: {} }, set);
  const isModules = Object.values(metafile.inputs).every(({ format }) => format !== 'cjs');
  return generatedOf(outputFiles, isModules ? asStrict : asWritten);
};

const asyncModule = async (set: FileSet): Promise<Generated> =>
  generatedOf((await buildWith({}, set)).outputFiles, asPromise);

/** The names that the entry exports. What it passes on from other files is not known from its text. */
const checkEntry = async ({ files, entrypoint }: FileSet, entryPoint: string): Promise<void> => {
  const text = files[entrypoint] ?? '';
  // JSX would have to be read in another way, for a check that is only a help.
  if (codeLoaders[path.extname(entrypoint)]?.endsWith('x') === true) return;
  const { exported } = await inspectModule(withoutSourceMap(text));
  const { names, isComplete } = exported;
  checkHandler({ names, isComplete: isComplete && !passesOn.test(text) }, entryPoint);
};

const passesOn = /export\s*\*/;

interface BundleOptions {
  /** Name of the handler; left out: not checked. */
  readonly entryPoint: string | undefined;
  readonly maxBytes: number;
}

const tooLarge = (maxBytes: number): ServiceError => {
  const message = `are longer than ${maxBytes} bytes when they are bundled`;
  return new ServiceError('validation_failed', `The function's files ${message}.`, {
    details: [{ path: 'files', message }],
  });
};

/** Stands before the last line of a bundle, which says which of its lines are those of which file. */
const placesMark = '\n//# plinthFiles=';

/**
 * Bundles the files of a function to the CommonJS text that the runtime executes. Its last line says where each part
 * comes from: `{files: [path], places: [[line, index of the file, line in the file]]}`, lines counted from 1.
 * @throws {ServiceError} `validation_failed`, with file, line and column; `import_not_bundled`
 */
export const bundleFiles = async (set: FileSet, { entryPoint, maxBytes }: BundleOptions): Promise<string> => {
  const generated = await commonJs(set).catch((error: unknown) => {
    if (isAsyncModule(error)) return asyncModule(set);
    throw error;
  });
  if (Buffer.byteLength(generated.code) > maxBytes) throw tooLarge(maxBytes);
  if (entryPoint !== undefined) await checkEntry(set, entryPoint);
  const { code, stretches } = await samePlaces(generated);
  const { sources } = JSON.parse(generated.map) as { sources: readonly string[] };
  const places = stretches.map(({ line, source, sourceLine }) => [line + 1, source, sourceLine + 1]);
  return code + placesMark + JSON.stringify({ files: sources.map(withoutSpace), places });
};
