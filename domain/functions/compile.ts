import {
  type BuildFailure,
  type BuildOptions,
  type Message,
  type OnResolveArgs,
  type OnResolveResult,
  build,
  transform,
} from 'esbuild';
import { ServiceError } from '#lib/errors.ts';
import { type HandlerNames, exportedNames, requireHandler } from './handler-names.ts';
import { type Generated, type Wrap, samePlaces } from './places.ts';

const maxSourceBytes = 1024 * 1024;

const bundleCommand = 'npx esbuild entry.js --bundle --platform=neutral --format=esm --outfile=function.js';

interface CompiledFunction {
  /** One CommonJS text. Its tokens stand on the lines of the source, so stack traces need no source map. */
  readonly code: string;
  /** The modules that the code loads by `require()` or `import()`: they do not exist at run time. */
  readonly imports: readonly string[];
}

/**
 * Compiles a function's source (ESM, CommonJS or TypeScript) to the CommonJS text that the runtime executes. Neither
 * resolves an import nor touches the file system.
 * @param entryPoint name of the handler, which the code must not certainly lack; left out: not checked
 * @throws ServiceError `validation_failed` for code that is too long, does not parse (with line and column) or lacks
 * its handler; `import_not_bundled` for a static import.
 */
export async function compileFunction(source: string, entryPoint?: string): Promise<CompiledFunction> {
  if (Buffer.byteLength(source) > maxSourceBytes) {
    throw invalidCode(`is longer than ${maxSourceBytes} bytes`);
  }
  const own = withoutSourceMap(source);
  const generated = await toCommonJs(own);
  const { imports, unbundled, exported } = await inspectModule(own);
  if (unbundled.length > 0) throw importNotBundled(unbundled);
  checkHandler(exported, entryPoint);
  const { code } = await samePlaces(generated);
  return { code, imports };
}

/** @throws {ServiceError} `validation_failed` when the handler is certainly not among what the code exports */
export const checkHandler = (exported: HandlerNames, entryPoint: string | undefined): void => {
  // Inherited members of every object are functions too, whatever the code exports.
  if (entryPoint !== undefined && !(entryPoint in Object.prototype)) requireHandler(exported, entryPoint, 'exports');
};

/** esbuild would follow a map in the source, to lines that are not there. The text keeps its length. */
export const withoutSourceMap = (source: string): string =>
  source.replaceAll(/(\/[/*][#@]\s*sourceMapping)URL=/g, '$1Url=');

export const asWritten: Wrap = (code) => code;
export const asStrict: Wrap = (code) => `"use strict";${code}`;

async function toCommonJs(source: string): Promise<Generated> {
  try {
    const result = await transform(source, {
      loader: 'ts',
      format: 'cjs',
      target: 'es2024',
      charset: 'utf8',
      legalComments: 'none',
      minifyWhitespace: true,
      sourcemap: 'external',
      sourcesContent: false,
      sourcefile: 'function.ts',
      // There is no module loader in the sandbox: import() becomes a require() that rejects with a clear message.
      supported: { 'dynamic-import': false },
      tsconfigRaw: {},
      logLevel: 'silent',
    });
    const wrap = isModule(result.code) ? asStrict : asWritten;
    return { code: result.code, map: result.map, wrap };
  } catch (error) {
    return isAsyncModule(error) ? asyncModule(source).catch(refuse) : refuse(error);
  }
}

interface Inspected {
  /** Every module that the code asks for, none of them resolved. */
  readonly imports: readonly string[];
  /** The modules without which the code cannot begin. */
  readonly unbundled: readonly string[];
  readonly exported: HandlerNames;
}

/** Reads what one module asks for and exports, and nothing else. */
export async function inspectModule(source: string): Promise<Inspected> {
  const found: { name: string; isStatic: boolean }[] = [];
  const { outputFiles, metafile } = await bundle(source, ({ path, kind }) => {
    found.push({ name: path, isStatic: kind === 'import-statement' });
    return { path, external: true };
  });
  const unbundled = found.filter(({ isStatic }) => isStatic).map(({ name }) => name);
  const isCommonJs = metafile.inputs['function.ts']?.format === 'cjs';
  const declared = Object.values(metafile.outputs).flatMap((output) => output.exports);
  const exported = exportedNames(outputFiles[0]?.text ?? '', isCommonJs ? null : declared);
  return { imports: [...new Set(found.map(({ name }) => name))], unbundled, exported };
}

const bundle = (source: string, resolve: (args: OnResolveArgs) => OnResolveResult) =>
  build({
    stdin: { contents: source, loader: 'ts', sourcefile: 'function.ts' },
    bundle: true,
    write: false,
    metafile: true,
    treeShaking: false,
    platform: 'neutral',
    format: 'esm',
    charset: 'utf8',
    legalComments: 'none',
    minifyWhitespace: true,
    tsconfigRaw: {},
    logLevel: 'silent',
    plugins: [{ name: 'imports', setup: (esbuild) => esbuild.onResolve({ filter: /.*/ }, resolve) }],
  }).catch(refuse);

/** An ES module is strict code; esbuild leaves that to the caller of the CommonJS text. */
const isModule = (code: string): boolean => code.includes('module.exports=__toCommonJS(');

const invalidCode = (message: string): ServiceError =>
  new ServiceError('validation_failed', `The function's code ${message}.`, { details: [{ path: 'code', message }] });

function asSyntaxError(error: unknown): unknown {
  const messages = (error as Partial<BuildFailure>).errors;
  if (messages === undefined || messages.length === 0) return error;
  return new ServiceError('validation_failed', "The function's code does not parse.", {
    details: messages.map((message) => ({ path: 'code', message: describe(message) })),
  });
}

export const describe = ({ location, text }: Message): string =>
  location === null ? text : `line ${location.line}, column ${location.column + 1}: ${text}`;

const refuse = (error: unknown): never => {
  throw asSyntaxError(error);
};

const importNotBundled = (names: readonly string[]): ServiceError =>
  new ServiceError('import_not_bundled', `The function imports "${names[0]}", which is not part of its code.`, {
    details: names.map((name) => ({ path: 'code', message: `import of "${name}"` })),
    hint: `A function is one file. Bundle it first: ${bundleCommand}`,
  });

/** Whether esbuild refused to make CommonJS of a module only because it awaits something outside of a function. */
export const isAsyncModule = (error: unknown): boolean => {
  const { errors = [] } = error as Partial<BuildFailure>;
  return errors.length > 0 && errors.every(({ text }) => text.startsWith('Top-level await is currently not supported'));
};

/** How an ES module is made whose exports, if it has any, stand in one statement at its end. */
export const asyncOptions = {
  bundle: true,
  write: false,
  outdir: '/',
  platform: 'neutral',
  format: 'esm',
  target: 'es2024',
  charset: 'utf8',
  legalComments: 'none',
  minifyWhitespace: true,
  sourcemap: 'external',
  sourcesContent: false,
  // As in CommonJS: there is no module loader in the sandbox, and `import.meta` is empty.
  supported: { 'dynamic-import': false },
  define: { 'import.meta': '{}' },
  tsconfigRaw: {},
  logLevel: 'silent',
} as const satisfies BuildOptions;

/** Compiles a module with top-level await. As a bundle, esbuild collects the exports in one place. */
const asyncModule = async (source: string): Promise<Generated> => {
  const { outputFiles } = await build({
    ...asyncOptions,
    stdin: { contents: source, loader: 'ts', sourcefile: 'function.ts' },
    treeShaking: false,
    plugins: [{ name: 'none', setup: (esbuild) => esbuild.onResolve({ filter: /.*/ }, external) }],
  });
  return generatedOf(outputFiles, asPromise);
};

export const generatedOf = (
  outputs: readonly { readonly path: string; readonly text: string }[],
  wrap: Wrap,
): Generated => {
  const textOf = (ending: string): string => outputs.find(({ path }) => path.endsWith(ending))?.text ?? '';
  return { code: textOf('.js'), map: textOf('.map'), wrap };
};

const external = ({ path }: { readonly path: string }) => ({ path, external: true });

const exportStatement = /export\s*\{((?:[^{}"]|"(?:[^"\\]|\\.)*")*)\}\s*;?\s*$/;
const exportEntry = /([^\s,"]+)(?:\s+as\s*("(?:[^"\\]|\\.)*"|[^\s,"]+))?/g;

/**
 * Wraps the code in a CommonJS text that returns a promise: when it is fulfilled, `module.exports` is set. Getters, as
 * exports are bindings. The object is handed out of the function, where the code's own `module` may hide
 * the outer one, and within another object, as a promise would call an export named `then`.
 */
export const asPromise: Wrap = (code) => {
  const [, list = ''] = exportStatement.exec(code) ?? [];
  const getters = [...list.matchAll(exportEntry)].map(([, local, name = local]) => `get ${name}(){return ${local}}`);
  const body = getters.length === 0 ? code : `${code.replace(exportStatement, '')};return{made:{${getters.join(',')}}}`;
  return `"use strict";return(async()=>{${body}})().then(own=>{if(own)module.exports=own.made})`;
};
