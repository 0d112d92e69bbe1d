import { createHash } from 'node:crypto';
import { globSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { build } from 'esbuild';

/*
 * The dashboard is built where it is started, and nothing that is built is committed: 0.3 s for the bundle and 0.5 s for
 * the compression, beside the start of the databases. The image builds it once (`npm run build`).
 */

const sources = 'web/dashboard';

/** The files of a build, as the API serves them (api/dashboard/pages.ts). */
interface DashboardManifest {
  readonly script: string;
  readonly style: string;
}

/** Where a build of these sources lies: its name follows from all that goes into it. */
export const dashboardFolder = (root: string, dataDir: string): string => {
  const hash = createHash('sha256');
  for (const file of globSync([`${sources}/**/*`, 'web/theme.css'], { cwd: root }).toSorted()) {
    if (!statSync(path.join(root, file)).isFile()) continue;
    hash.update(`${file}\0`).update(readFileSync(path.join(root, file)));
  }
  hash.update(readFileSync(path.join(root, 'package-lock.json')));
  return path.join(dataDir, `dashboard-${hash.digest('hex').slice(0, 12)}`);
};

const compressible = /\.(?:js|css|svg)$/;

/** Quality 9 takes 0.4 s and 11 takes 2.7 s, for 7 % fewer bytes. */
const compressAll = async (folder: string, quality: number): Promise<void> => {
  const files = readdirSync(folder).filter((name) => compressible.test(name));
  await Promise.all(
    files.map(async (name) => {
      const file = path.join(folder, name);
      const content = readFileSync(file);
      const params = { [constants.BROTLI_PARAM_QUALITY]: quality, [constants.BROTLI_PARAM_SIZE_HINT]: content.length };
      writeFileSync(`${file}.br`, await promisify(brotliCompress)(content, { params }));
      writeFileSync(`${file}.gz`, await promisify(gzip)(content, { level: 9 }));
    }),
  );
};

const bundle = async (root: string, folder: string): Promise<DashboardManifest> => {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [`${sources}/main.tsx`],
    outdir: folder,
    bundle: true,
    splitting: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    metafile: true,
    legalComments: 'none',
    logLevel: 'silent',
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    define: { 'process.env.NODE_ENV': '"production"' },
  });
  const [script, { cssBundle } = {}] =
    Object.entries(metafile.outputs).find(([, { entryPoint }]) => entryPoint === `${sources}/main.tsx`) ?? [];
  if (script === undefined || cssBundle === undefined) throw new Error('The build of the dashboard has no entry.');
  return { script: path.basename(script), style: path.basename(cssBundle) };
};

const isBuilt = (folder: string): boolean =>
  statSync(path.join(folder, 'manifest.json'), { throwIfNoEntry: false }) !== undefined;

interface BuildOptions {
  /** The quality of brotli's compression, 0 to 11. */
  readonly quality: number;
}

/** Builds the dashboard into that folder, whole or not at all; nothing is done where it is. */
export const buildDashboard = async (root: string, folder: string, { quality }: BuildOptions): Promise<void> => {
  if (isBuilt(folder)) return;
  const draft = mkdtempSync(`${folder}-draft-`);
  try {
    const manifest = await bundle(root, draft);
    await compressAll(draft, quality);
    writeFileSync(path.join(draft, 'manifest.json'), JSON.stringify(manifest));
    rmSync(folder, { recursive: true, force: true });
    renameSync(draft, folder);
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    // Another process was faster.
    if (!isBuilt(folder)) throw error;
  }
};

/** Deletes builds of earlier sources. */
export const removeOtherBuilds = (folder: string): void => {
  for (const name of readdirSync(path.dirname(folder))) {
    const isOther = name.startsWith('dashboard-') && name !== path.basename(folder);
    if (isOther) rmSync(path.join(path.dirname(folder), name), { recursive: true, force: true });
  }
};
