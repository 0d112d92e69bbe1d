import { build, transform, type BuildFailure, type Message } from 'esbuild';
import { ServiceError } from '#lib/errors.ts';
import { alignToSource } from './source-lines.ts';

export const maxSourceBytes = 1024 * 1024;

const bundleCommand = 'npx esbuild entry.js --bundle --platform=neutral --format=esm --outfile=function.js';

export interface CompiledFunction {
  /** One CommonJS text. Its tokens stand on the lines of the source, so stack traces need no source map. */
  readonly code: string;
  /** What the code asks for by `require()` or `import()`: nothing of it is there at run time. */
  readonly imports: readonly string[];
}

/**
 * Turns a function's source (ESM, CommonJS or TypeScript) into the CommonJS text that the runtime executes.
 * Neither resolves an import nor touches the file system.
 * @throws ServiceError `validation_failed` for code that is too long or does not parse, with line and column;
 * `import_not_bundled` for a static import.
 */
export async function compileFunction(source: string): Promise<CompiledFunction> {
  if (Buffer.byteLength(source) > maxSourceBytes) {
    throw invalidCode(`is longer than ${maxSourceBytes} bytes`);
  }
  const own = withoutSourceMap(source);
  const { code, map } = await toCommonJs(own);
  const imports = await requestedModules(own);
  const placed = await samePlaces(code, map);
  return { code: placed, imports };
}

/** esbuild would follow a map in the source, to lines that are not there. The text keeps its length. */
const withoutSourceMap = (source: string): string => source.replaceAll(/(\/[/*][#@]\s*sourceMapping)URL=/g, '$1Url=');

async function toCommonJs(source: string): Promise<{ code: string; map: string }> {
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
    return { code: result.code, map: result.map };
  } catch (error) {
    throw asSyntaxError(error);
  }
}

/** Names every module that the code asks for, without resolving one. */
async function requestedModules(source: string): Promise<string[]> {
  const found: { name: string; isStatic: boolean }[] = [];
  await build({
    stdin: { contents: source, loader: 'ts', sourcefile: 'function.ts' },
    bundle: true,
    write: false,
    treeShaking: false,
    platform: 'neutral',
    format: 'esm',
    tsconfigRaw: {},
    logLevel: 'silent',
    plugins: [
      {
        name: 'imports',
        setup(service) {
          service.onResolve({ filter: /.*/ }, ({ path, kind }) => {
            found.push({ name: path, isStatic: kind === 'import-statement' });
            return { path, external: true };
          });
        },
      },
    ],
  });
  const unbundled = found.filter(({ isStatic }) => isStatic).map(({ name }) => name);
  if (unbundled.length > 0) throw importNotBundled(unbundled);
  return [...new Set(found.map(({ name }) => name))];
}

/**
 * Code laid out on the source's own lines and columns. Moving tokens apart must never change what they mean, so both
 * texts are parsed and printed again; where they differ, right code with wrong line numbers is the better of the two.
 */
async function samePlaces(code: string, map: string): Promise<string> {
  const strict = isModule(code) ? `"use strict";${code}` : code;
  const placed = alignToSource(code, map);
  const candidate = isModule(code) ? `"use strict";${placed}` : placed;
  const [before, after] = await Promise.all([canonical(strict), canonical(candidate)]);
  return before !== null && before === after ? candidate : strict;
}

async function canonical(code: string): Promise<string | null> {
  try {
    const result = await transform(code, { loader: 'js', minifyWhitespace: true, charset: 'utf8', logLevel: 'silent' });
    return result.code;
  } catch {
    return null;
  }
}

/** An ES module is strict code; esbuild leaves that to whoever runs the CommonJS text. */
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

const importNotBundled = (names: readonly string[]): ServiceError =>
  new ServiceError('import_not_bundled', `The function imports "${names[0]}", which is not part of its code.`, {
    details: names.map((name) => ({ path: 'code', message: `import of "${name}"` })),
    hint: `A function is one file. Bundle it first: ${bundleCommand}`,
  });
