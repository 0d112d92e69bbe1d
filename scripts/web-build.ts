import { createHash } from 'node:crypto';
import { globSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { build } from 'esbuild';

/*
 * The dashboard and the operators' page are built where they are started, and nothing that is built is committed: 0.3 s
 * for the bundles and 0.7 s for the compression, beside the start of the databases. The image builds them once
 * (`npm run build`).
 */

/**
 * Each page is bundled by itself: chunks that both shared would make the shell of each larger, and hardly anybody opens
 * both.
 */
const entries = { dashboard: 'web/dashboard/main.tsx', ops: 'web/ops/main.tsx' } as const;

/** The first files of each page, as the API serves them (api/web/build.ts). */
type WebManifest = Readonly<Record<string, { readonly script: string; readonly style: string }>>;

const prefix = 'web-';

/** Where a build of these sources lies: its name follows from all that goes into it. */
export const webBuildFolder = (root: string, dataDir: string): string => {
  const hash = createHash('sha256');
  for (const file of globSync(['web/{dashboard,ops}/**/*', 'web/theme.css'], { cwd: root }).toSorted()) {
    if (!statSync(path.join(root, file)).isFile()) continue;
    hash.update(`${file}\0`).update(readFileSync(path.join(root, file)));
  }
  hash.update(readFileSync(path.join(root, 'package-lock.json')));
  return path.join(dataDir, `${prefix}${hash.digest('hex').slice(0, 12)}`);
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

const bundle = async (root: string, folder: string, entry: string): Promise<WebManifest[string]> => {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [entry],
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
    Object.entries(metafile.outputs).find(([, { entryPoint }]) => entryPoint === entry) ?? [];
  if (script === undefined || cssBundle === undefined) throw new Error(`The build of ${entry} is incomplete.`);
  return { script: path.basename(script), style: path.basename(cssBundle) };
};

const bundleAll = async (root: string, folder: string): Promise<WebManifest> =>
  Object.fromEntries(
    await Promise.all(
      Object.entries(entries).map(async ([name, entry]) => [name, await bundle(root, folder, entry)] as const),
    ),
  );

const isBuilt = (folder: string): boolean =>
  statSync(path.join(folder, 'manifest.json'), { throwIfNoEntry: false }) !== undefined;

interface BuildOptions {
  /** The quality of brotli's compression, 0 to 11. */
  readonly quality: number;
}

/** Builds both pages into that folder, whole or not at all; nothing is done where they are. */
export const buildWeb = async (root: string, folder: string, { quality }: BuildOptions): Promise<void> => {
  if (isBuilt(folder)) return;
  const draft = mkdtempSync(`${folder}-draft-`);
  try {
    const manifest = await bundleAll(root, draft);
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

/** Deletes builds of earlier sources; those of earlier versions were called `dashboard-`. */
export const removeOtherBuilds = (folder: string): void => {
  for (const name of readdirSync(path.dirname(folder))) {
    const isOther = /^(?:web|dashboard)-/.test(name) && name !== path.basename(folder);
    if (isOther) rmSync(path.join(path.dirname(folder), name), { recursive: true, force: true });
  }
};
