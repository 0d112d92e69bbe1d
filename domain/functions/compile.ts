import { type BuildFailure, type Message, type OnResolveArgs, type OnResolveResult, build, transform } from 'esbuild';
import { ServiceError } from '#lib/errors.ts';
import { asyncModule, isAsyncModule } from './async-module.ts';
import { type HandlerNames, exportedNames, requireHandler } from './handler-names.ts';
import { alignToSource } from './source-lines.ts';

export const maxSourceBytes = 1024 * 1024;

const bundleCommand = 'npx esbuild entry.js --bundle --platform=neutral --format=esm --outfile=function.js';

export interface CompiledFunction {
  /** One CommonJS text. Its tokens stand on the lines of the source, so stack traces need no source map. */
  readonly code: string;
  /** The modules that the code loads by `require()` or `import()`: they do not exist at run time. */
  readonly imports: readonly string[];
}

/** How generated code becomes the text that runs, before or after its tokens are moved to their places. */
type Wrap = (code: string) => string;

interface Generated {
  readonly code: string;
  readonly map: string;
  readonly wrap: Wrap;
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
  const { imports, exported } = await inspectModule(own);
  // Inherited members of every object are functions too, whatever the code exports.
  if (entryPoint !== undefined && !(entryPoint in Object.prototype)) requireHandler(exported, entryPoint, 'exports');
  return { code: await samePlaces(generated), imports };
}

/** esbuild would follow a map in the source, to lines that are not there. The text keeps its length. */
const withoutSourceMap = (source: string): string => source.replaceAll(/(\/[/*][#@]\s*sourceMapping)URL=/g, '$1Url=');

const asWritten: Wrap = (code) => code;
const asStrict: Wrap = (code) => `"use strict";${code}`;

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
  readonly exported: HandlerNames;
}

async function inspectModule(source: string): Promise<Inspected> {
  const found: { name: string; isStatic: boolean }[] = [];
  const { outputFiles, metafile } = await bundle(source, ({ path, kind }) => {
    found.push({ name: path, isStatic: kind === 'import-statement' });
    return { path, external: true };
  });
  const unbundled = found.filter(({ isStatic }) => isStatic).map(({ name }) => name);
  if (unbundled.length > 0) throw importNotBundled(unbundled);
  const isCommonJs = metafile.inputs['function.ts']?.format === 'cjs';
  const declared = Object.values(metafile.outputs).flatMap((output) => output.exports);
  const exported = exportedNames(outputFiles[0]?.text ?? '', isCommonJs ? null : declared);
  return { imports: [...new Set(found.map(({ name }) => name))], exported };
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

/**
 * Code laid out on the source's own lines and columns. Moving tokens apart must never change what they mean, so both
 * texts are parsed and printed again; where they differ, right code with wrong line numbers is the better of the two.
 */
async function samePlaces({ code, map, wrap }: Generated): Promise<string> {
  const plain = wrap(code);
  const candidate = wrap(alignToSource(code, map));
  const [before, after] = await Promise.all([canonical(plain), canonical(candidate)]);
  return before !== null && before === after ? candidate : plain;
}

async function canonical(code: string): Promise<string | null> {
  try {
    const result = await transform(code, { loader: 'js', minifyWhitespace: true, charset: 'utf8', logLevel: 'silent' });
    return result.code;
  } catch {
    return null;
  }
}

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

const describe = ({ location, text }: Message): string =>
  location === null ? text : `line ${location.line}, column ${location.column + 1}: ${text}`;

const refuse = (error: unknown): never => {
  throw asSyntaxError(error);
};

const importNotBundled = (names: readonly string[]): ServiceError =>
  new ServiceError('import_not_bundled', `The function imports "${names[0]}", which is not part of its code.`, {
    details: names.map((name) => ({ path: 'code', message: `import of "${name}"` })),
    hint: `A function is one file. Bundle it first: ${bundleCommand}`,
  });
