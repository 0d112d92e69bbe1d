import type { Config } from '#lib/config.ts';
import { createEgress } from '#lib/egress.ts';
import { createJavascriptRuntime } from '#workers/runtimes/javascript/index.ts';
import { createPythonRuntime } from '#workers/runtimes/python/index.ts';
import { findPython } from '#domain/functions/python.ts';
import type { Runtime } from '#workers/runtimes/runtime.ts';
import { openSandbox } from '#workers/runtimes/sandbox.ts';

interface RuntimeSize {
  readonly maxRunners: number;
  readonly maxRuns?: number;
}

/** The measured figures of a language and their limits (the factors are against a fresh process for each call). */
export interface BenchLanguage {
  readonly name: string;
  /** The program of a fresh process. */
  readonly program: string;
  /** Files in `fresh/` end so. */
  readonly ending: string;
  readonly open: (size: RuntimeSize) => Promise<Runtime>;
  readonly noOp: string;
  /** `select 1` with a parameter, by the SDK. */
  readonly query: string;
  readonly atLeast: { readonly faster: number; readonly rate: number; readonly query: number };
  readonly idleMb: number;
}

const silent = { warn: () => undefined, error: () => undefined };

/** The languages that this machine has, in the sandbox that the workers have. */
export const benchLanguages = async (config: Config): Promise<readonly BenchLanguage[]> => {
  const sandbox = await openSandbox({ level: config.SANDBOX, local: true, bwrapPath: config.PLINTH_BWRAP });
  const common = { sandbox, spares: 1, log: silent };
  const javascript: BenchLanguage = {
    name: 'JavaScript',
    program: process.execPath,
    ending: 'mjs',
    open: (size) => createJavascriptRuntime({ ...common, ...size }),
    noOp: 'exports.handler = () => null;',
    query: 'exports.handler = (payload, sdk) => sdk.db.queryOne("select $1::int as n", [1]);',
    atLeast: { faster: 25, rate: 15, query: 35 },
    idleMb: 25,
  };
  const interpreter = await findPython(undefined);
  if (interpreter === null) return [javascript];
  const egress = createEgress({ allow: config.PLINTH_EGRESS_ALLOW, local: true });
  const python: BenchLanguage = {
    name: 'Python',
    program: interpreter.program,
    ending: 'py',
    open: (size) => createPythonRuntime({ ...common, ...size, interpreter, egress }),
    noOp: 'def handler(payload, sdk):\n    return None\n',
    query: 'def handler(payload, sdk):\n    return sdk.db.query_one("select %s::int as n", [1])\n',
    atLeast: { faster: 4, rate: 4, query: 6 },
    idleMb: 15,
  };
  return [javascript, python];
};
