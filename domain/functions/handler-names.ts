import { ServiceError } from '#lib/errors.ts';

/** The names under which code offers its functions, as far as they can be read without running it. */
export interface HandlerNames {
  readonly names: readonly string[];
  /**
   * False when the code may offer others too: by names that it computes, or by a function without a name of its own.
   */
  readonly isComplete: boolean;
}

const maxListed = 20;

const listed = (names: readonly string[]): string => {
  if (names.length === 0) return 'nothing';
  const shown = names.slice(0, maxListed).map((name) => `"${name.slice(0, 128)}"`);
  return names.length > maxListed ? `${shown.join(', ')} and ${names.length - maxListed} more` : shown.join(', ');
};

/**
 * Refuses code that certainly lacks its handler. What cannot be known before it runs is left to the run.
 * @param verb how the language offers a function: `exports`, `defines`
 * @throws {ServiceError} `validation_failed`, with the names that were found
 */
export const requireHandler = (
  { names, isComplete }: HandlerNames,
  entryPoint: string,
  verb: 'exports' | 'defines',
): void => {
  if (!isComplete || names.includes(entryPoint)) return;
  const lack = `The code ${verb} no function named "${entryPoint}"; it ${verb} ${listed(names)}.`;
  throw new ServiceError('validation_failed', lack, {
    details: [{ path: 'entry_point', message: `is not among the names that the code ${verb}` }],
    hint:
      `Give the function that is to run this name${verb === 'exports' ? ' and export it' : ''}, ` +
      'or set entry_point to its name.',
  });
};

/** `exports.name` and `module.exports.name`, whether they are written or only read. */
const namedExport = /(?<![\w$.])(?:module\.)?exports\.([A-Za-z_$][\w$]*)/g;
/** `module.exports = { one, two: other }`, where nothing is spread or computed. */
const listedExports = /(?<![\w$.])module\.exports=\{((?:[\w$]+(?::[\w$]+)?(?:,|(?=\})))*)\}(?=[;}]|\s*$)/g;
const moduleMark = 'Object.defineProperty(exports,"__esModule",{value:true})';
/**
 * By these words code can reach its exports in other ways. A word in a text counts too: that only makes it less
 * certain.
 */
const otherWays = /(?<![\w$])(?:exports|module|eval|arguments)(?![\w$])/;

const keysOf = (list: string): string[] => list.split(',').flatMap((entry) => entry.split(':', 1));

const commonJsBody = (bundle: string): string => {
  const [, body] = bundle.split(/__commonJS\(\{"function\.ts"\([^)]*\)\{(.*)\}\}\);export default /s);
  return body ?? bundle;
};

/**
 * Returns the exported names of JavaScript, in both kinds of modules.
 * @param bundle the code as esbuild prints it as an ES module, without white space
 * @param declared names that its `export` statements declare; null for CommonJS
 */
export const exportedNames = (bundle: string, declared: readonly string[] | null): HandlerNames => {
  const body = declared === null ? commonJsBody(bundle) : bundle;
  const names = new Set(declared);
  const rest = body
    .replaceAll(moduleMark, '')
    .replaceAll(listedExports, (_, list: string) => {
      for (const key of keysOf(list)) if (key !== '') names.add(key);
      return '';
    })
    .replaceAll(namedExport, (_, name: string) => {
      names.add(name);
      return '';
    });
  // The runtime also reads a default export, and takes it as the handler when it is a function.
  const isOpen = names.has('default') || [...names].some((name) => name in Object.prototype);
  return { names: [...names].toSorted(), isComplete: !isOpen && !otherWays.test(rest) };
};
