import { type BuildFailure, type Message, type OnResolveArgs, type OnResolveResult, build, transform } from 'esbuild';
import { ServiceError } from '#lib/errors.ts';
import { type HandlerNames, exportedNames, requireHandler } from './handler-names.ts';

const maxSourceBytes = 1024 * 1024;

const bundleCommand = 'npx esbuild entry.js --bundle --platform=neutral --format=esm --outfile=function.js';

interface CompiledFunction {
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

/** Whether esbuild refused to make CommonJS of a module only because it awaits something outside of a function. */
const isAsyncModule = (error: unknown): boolean => {
  const { errors = [] } = error as Partial<BuildFailure>;
  return errors.length > 0 && errors.every(({ text }) => text.startsWith('Top-level await is currently not supported'));
};

interface AsyncModule {
  /** An ES module whose exports, if it has any, stand in one statement at its end. */
  readonly code: string;
  readonly map: string;
  /** Wraps the code in a CommonJS text that returns a promise: when it is fulfilled, `module.exports` is set. */
  readonly wrap: (code: string) => string;
}

/** Compiles a module with top-level await. As a bundle, esbuild collects the exports in one place. */
const asyncModule = async (source: string): Promise<AsyncModule> => {
  const { outputFiles } = await build({
    stdin: { contents: source, loader: 'ts', sourcefile: 'function.ts' },
    bundle: true,
    write: false,
    outdir: '/',
    treeShaking: false,
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
    plugins: [{ name: 'none', setup: (esbuild) => esbuild.onResolve({ filter: /.*/ }, external) }],
  });
  const textOf = (ending: string): string => outputFiles.find(({ path }) => path.endsWith(ending))?.text ?? '';
  return { code: textOf('.js'), map: textOf('.map'), wrap: asPromise };
};

const external = ({ path }: { readonly path: string }) => ({ path, external: true });

const exportStatement = /export\s*\{((?:[^{}"]|"(?:[^"\\]|\\.)*")*)\}\s*;?\s*$/;
const exportEntry = /([^\s,"]+)(?:\s+as\s*("(?:[^"\\]|\\.)*"|[^\s,"]+))?/g;

/**
 * Getters, as exports are bindings. The object is handed out of the function, where the code's own `module` may hide
 * the outer one, and within another object, as a promise would call an export named `then`.
 */
const asPromise = (code: string): string => {
  const [, list = ''] = exportStatement.exec(code) ?? [];
  const getters = [...list.matchAll(exportEntry)].map(([, local, name = local]) => `get ${name}(){return ${local}}`);
  const body = getters.length === 0 ? code : `${code.replace(exportStatement, '')};return{made:{${getters.join(',')}}}`;
  return `"use strict";return(async()=>{${body}})().then(own=>{if(own)module.exports=own.made})`;
};

/**
 * Puts the tokens of generated code back onto the lines and columns of its source, so that a stack trace of the
 * generated code reads as one of the source. The alternative, a source map that is kept beside the code and applied to
 * every stack, would also have to be applied inside the sandbox to each stack that user code prints itself.
 */

interface Segment {
  /** Where the token begins in the generated code. */
  readonly offset: number;
  /** Where it begins in the source, both from 0. */
  readonly line: number;
  readonly column: number;
}

/** After these characters a line break can neither end a statement nor split a token. */
const breakable = new Set(';{},([=&|?:*%<>!~^.');
/**
 * After these words it cannot either; `return`, `throw`, `yield`, `break`, `continue` and `async` are not among them.
 */
const breakableWord =
  /(?:^|[^\w$.])(?:else|await|new|typeof|void|delete|in|of|instanceof|case|const|let|var|extends) $/;

/**
 * @param code printed by esbuild with `minifyWhitespace`: the only line breaks in it stand inside template literals
 * @param map its source map (version 3, one source)
 */
function alignToSource(code: string, map: string): string {
  const segments = decodeSegments(code, (JSON.parse(map) as { mappings: string }).mappings);
  const writer = new PlacedText();
  let previous: Segment = { offset: 0, line: 0, column: 0 };
  for (const segment of segments) {
    writer.write(withoutExtraBreaks(code.slice(previous.offset, segment.offset), segment.line - previous.line));
    writer.moveTo(segment, code.charAt(segment.offset));
    previous = segment;
  }
  writer.write(code.slice(previous.offset));
  return writer.text();
}

/** `\n` in a template literal is printed as a real line break, which would push all that follows down a line. */
function withoutExtraBreaks(text: string, sourceLines: number): string {
  if (!text.includes('\n')) return text;
  const printedLines = text.split('\n').length - 1;
  return printedLines > Math.max(sourceLines, 0) ? text.replaceAll('\n', String.raw`\n`) : text;
}

class PlacedText {
  readonly #parts: string[] = [];
  #tail = '';
  #line = 0;
  #column = 0;

  write(text: string): void {
    if (text === '') return;
    this.#parts.push(text);
    this.#tail = (this.#tail + text).slice(-16);
    const lastBreak = text.lastIndexOf('\n');
    if (lastBreak === -1) {
      this.#column += text.length;
      return;
    }
    this.#line += text.split('\n').length - 1;
    this.#column = text.length - lastBreak - 1;
  }

  moveTo({ line, column }: Segment, next: string): void {
    if (line > this.#line && this.#mayBreakBefore(next)) this.write('\n'.repeat(line - this.#line));
    if (line === this.#line && column > this.#column) this.write(' '.repeat(column - this.#column));
  }

  text(): string {
    return this.#parts.join('');
  }

  #mayBreakBefore(next: string): boolean {
    const last = this.#tail.at(-1) ?? ';';
    if (breakable.has(last)) return true;
    if (last === ')') return !'=+-'.includes(next);
    return last === ' ' && (this.#tail.trimEnd() === '' || breakableWord.test(this.#tail));
  }
}

/** Decodes the mappings field (base64 VLQ) into segments in the order of the generated code. */
function decodeSegments(code: string, mappings: string): Segment[] {
  const segments: Segment[] = [];
  let lineStart = 0;
  let line = 0;
  let column = 0;
  for (const [index, group] of mappings.split(';').entries()) {
    let generatedColumn = 0;
    for (const encoded of group.split(',')) {
      const [columnDelta = 0, source, lineDelta = 0, sourceColumnDelta = 0] = decodeVlq(encoded);
      generatedColumn += columnDelta;
      if (source === undefined) continue;
      line += lineDelta;
      column += sourceColumnDelta;
      // esbuild repeats the last position at the start of a printed line: that is the inside of a template literal.
      if (index > 0 && generatedColumn === 0) continue;
      segments.push({ offset: lineStart + generatedColumn, line, column });
    }
    lineStart = code.indexOf('\n', lineStart) + 1;
  }
  return segments;
}

const base64Digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const digits = new Map(Array.from(base64Digits, (character, value) => [character, value]));

function decodeVlq(encoded: string): number[] {
  const values: number[] = [];
  let value = 0;
  let shift = 0;
  for (const character of encoded) {
    const digit = digits.get(character) ?? 0;
    value += (digit & 31) << shift;
    shift += 5;
    if ((digit & 32) !== 0) continue;
    values.push((value & 1) === 1 ? -(value >>> 1) : value >>> 1);
    value = 0;
    shift = 0;
  }
  return values;
}
