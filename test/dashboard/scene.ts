import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { TestFn } from 'ava';
import { stop } from 'esbuild';
import { buildDashboard } from '#scripts/dashboard-build.ts';
import { type TestPlatform, usePlatform } from '#test/support/platform.ts';
import { longTestMs } from '#test/support/time-outs.ts';

const root = path.join(import.meta.dirname, '../..');

/** A platform that serves a dashboard of the present sources. */
export const useDashboard = (test: TestFn): { readonly platform: () => TestPlatform; readonly folder: string } => {
  const parent = mkdtempSync(path.join(os.tmpdir(), 'plinth-dashboard-'));
  const folder = path.join(parent, 'dashboard');
  const platform = usePlatform(test, { settings: { PLINTH_DASHBOARD_DIR: folder } });
  test.serial.before('the dashboard is built', async (t) => {
    t.timeout(longTestMs);
    await buildDashboard(root, folder, { quality: 9 });
    await stop();
  });
  test.after.always('the build is deleted', () => rmSync(parent, { recursive: true, force: true }));
  return { platform, folder };
};
