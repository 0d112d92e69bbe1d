import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { TestFn } from 'ava';
import { stop } from 'esbuild';
import { buildWeb } from '#scripts/web-build.ts';
import { longTestMs } from './time-outs.ts';

const root = path.join(import.meta.dirname, '../..');

/** The setting of a platform that serves the dashboard and the operators' page of the present sources. */
export const useWebBuild = (test: TestFn): { readonly PLINTH_DASHBOARD_DIR: string } => {
  const parent = mkdtempSync(path.join(os.tmpdir(), 'plinth-web-'));
  const folder = path.join(parent, 'web');
  test.serial.before('the pages are built', async (t) => {
    t.timeout(longTestMs);
    await buildWeb(root, folder, { quality: 9 });
    await stop();
  });
  test.after.always('the build is deleted', () => rmSync(parent, { recursive: true, force: true }));
  return { PLINTH_DASHBOARD_DIR: folder };
};
