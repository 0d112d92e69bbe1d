import path from 'node:path';
import { stop } from 'esbuild';
import { settings } from '#lib/config.ts';
import { buildDashboard } from './dashboard-build.ts';

/*
 * `npm run build`: what an image needs beside its sources, the dashboard, into the folder where the API looks for it.
 */

const root = path.join(import.meta.dirname, '..');
const folder = path.resolve(root, settings.shape.PLINTH_DASHBOARD_DIR.parse(process.env['PLINTH_DASHBOARD_DIR']));

await buildDashboard(root, folder, { quality: 11 });
await stop();
