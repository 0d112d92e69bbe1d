import path from 'node:path';
import { type Config, ConfigError } from '#lib/config.ts';
import type { Egress } from '#lib/egress.ts';
import type { Log } from '#lib/log.ts';
import { CpuShares } from './cpu-shares.ts';
import { createJavascriptRuntime } from './javascript/index.ts';
import { type PythonOptions, createPythonRuntime } from './python/index.ts';
import { type Interpreter, findPython, howToInstall } from '#domain/functions/python.ts';
import type { Runtime } from './runtime.ts';
import { type Sandbox, SandboxUnavailable, openSandbox } from './sandbox.ts';

/** By language; one that this machine cannot run is missing. */
export type Runtimes = { readonly javascript: Runtime; readonly python?: Runtime };

/**
 * The runtimes that this machine and its settings allow, with their spares warm.
 * @throws {ConfigError} when functions cannot be fenced in as the settings ask for
 */
export const openRuntimes = async (config: Config, egress: Egress, log: Log): Promise<Runtimes> => {
  const local = config.PLINTH_LOCAL === 'on';
  try {
    const sandbox = await openSandbox({
      level: config.SANDBOX,
      local,
      bwrapPath: config.PLINTH_BWRAP,
      privateFolders: [path.resolve(config.DATA_DIR)],
    });
    if (sandbox.warning !== null) log.warn(sandbox.warning);
    const maxRunners = config.PLINTH_FUNCTION_SLOTS * 2;
    const options = { sandbox, cpuShares: new CpuShares(), maxRunners, spares: 1, log };
    const interpreter = await pythonFor(config, sandbox, log);
    const javascript = await createJavascriptRuntime(options);
    const python = interpreter && (await startPython({ ...options, interpreter, egress }));
    return python === null ? { javascript } : { javascript, python };
  } catch (error) {
    throw error instanceof SandboxUnavailable ? new ConfigError(error.message) : error;
  }
};

/** A Python without which it does not start, an old kernel: then this worker serves JavaScript alone. */
const startPython = async (options: PythonOptions): Promise<Runtime | null> => {
  try {
    return await createPythonRuntime(options);
  } catch (error) {
    options.log.error({ err: error }, 'functions in Python do not run here');
    return null;
  }
};

/**
 * User code of Python is fenced in by the sandbox alone: in a weak one it runs only where an operator has asked for
 * that.
 * @throws {SandboxUnavailable} when the Python that was named cannot be used
 */
const pythonFor = async (config: Config, sandbox: Sandbox, log: Log): Promise<Interpreter | null> => {
  if (sandbox.level !== 'strict' && config.SANDBOX !== 'best-effort') {
    log.warn('functions in Python do not run here: set SANDBOX=best-effort to run them without namespaces');
    return null;
  }
  const interpreter = await findPython(config.PLINTH_PYTHON);
  if (interpreter !== null) return interpreter;
  if (config.PLINTH_PYTHON !== undefined) {
    throw new SandboxUnavailable(`PLINTH_PYTHON: ${config.PLINTH_PYTHON} is not a Python of version 3.9 or newer.`);
  }
  log.warn(howToInstall);
  return null;
};
