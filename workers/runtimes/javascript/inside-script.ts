import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { buildSync, version as bundler } from 'esbuild';

const folder = join(import.meta.dirname, 'guest/isolate');
const root = join(import.meta.dirname, '../../..');

/**
 * The script that surrounds user code in every isolate: the files in `guest/isolate` and the libraries that they use,
 * in one text whose value is the function `enter`. It is bundled once for each state of its sources (0.2 s) and kept
 * beside the installed packages; where these are read-only, in a folder of this process's own.
 * @returns its path; every user may read it, as guests have user ids of their own
 */
export function insideScript(cache = join(root, 'node_modules/.cache/plinth')): string {
  const name = `inside-${fingerprint()}.js`;
  const kept = join(cache, name);
  if (existsSync(kept)) return kept;
  const text = bundle();
  try {
    return write(kept, text);
  } catch {
    const own = mkdtempSync(join(tmpdir(), 'plinth-'));
    chmodSync(own, 0o755);
    process.once('exit', () => rmSync(own, { recursive: true, force: true }));
    return write(join(own, name), text);
  }
}

/** Whole or not at all: other workers may be starting at the same time. */
function write(path: string, text: string): string {
  mkdirSync(dirname(path), { recursive: true });
  const unfinished = `${path}.${process.pid}`;
  writeFileSync(unfinished, text);
  chmodSync(unfinished, 0o644);
  renameSync(unfinished, path);
  return path;
}

/** The inputs of the bundle: our files, package.json for the libraries' versions, and the bundler. */
function fingerprint(): string {
  const hash = createHash('sha256').update(bundler);
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.cjs'));
  for (const path of [
    import.meta.filename,
    join(root, 'package.json'),
    ...names.sort().map((name) => join(folder, name)),
  ]) {
    hash.update(readFileSync(path));
  }
  return hash.digest('hex').slice(0, 16);
}

const webLoaders = './loaders.cjs';

/** Two bundles: that of the web's globals is a function in the other, called when one of them is first touched. */
function bundle(): string {
  const web = bundleOf('web/loaders.cjs', []);
  const main = bundleOf('enter.cjs', [webLoaders]);
  return `(() => {
    let loaded;
    const require = () => (loaded ??= (() => {${web} return part;})());
    ${main}
    return part.enter;
  })()`;
}

function bundleOf(entry: string, external: string[]): string {
  const { outputFiles } = buildSync({
    entryPoints: [join(folder, entry)],
    external,
    bundle: true,
    write: false,
    format: 'iife',
    globalName: 'part',
    platform: 'neutral',
    mainFields: ['module', 'main'],
    target: 'esnext',
    // One byte a character in the engine.
    charset: 'ascii',
    minifyWhitespace: true,
    minifySyntax: true,
    legalComments: 'none',
    logLevel: 'silent',
  });
  return outputFiles[0]?.text ?? '';
}
