import { type BuildFailure, build } from 'esbuild';

/** Whether esbuild refused to make CommonJS of a module only because it awaits something outside of a function. */
export const isAsyncModule = (error: unknown): boolean => {
  const { errors = [] } = error as Partial<BuildFailure>;
  return errors.length > 0 && errors.every(({ text }) => text.startsWith('Top-level await is currently not supported'));
};

export interface AsyncModule {
  /** An ES module whose exports, if it has any, stand in one statement at its end. */
  readonly code: string;
  readonly map: string;
  /** Wraps the code in a CommonJS text that returns a promise: when it is fulfilled, `module.exports` is set. */
  readonly wrap: (code: string) => string;
}

/** Compiles a module with top-level await. As a bundle, esbuild collects the exports in one place. */
export const asyncModule = async (source: string): Promise<AsyncModule> => {
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
 * Getters, as exports are bindings. The object is handed out of the function, where the code's own `module` may hide the
 * outer one, and within another object, as a promise would call an export named `then`.
 */
const asPromise = (code: string): string => {
  const [, list = ''] = exportStatement.exec(code) ?? [];
  const getters = [...list.matchAll(exportEntry)].map(([, local, name = local]) => `get ${name}(){return ${local}}`);
  const body = getters.length === 0 ? code : `${code.replace(exportStatement, '')};return{made:{${getters.join(',')}}}`;
  return `"use strict";return(async()=>{${body}})().then(own=>{if(own)module.exports=own.made})`;
};
