import path from 'node:path';
import { stop } from 'esbuild';
import { settings } from '#lib/config.ts';
import { buildWeb } from './web-build.ts';

/*
 * `npm run build`: what an image needs beside its sources, the dashboard and the operators' page, into the folder where
 * the API looks for them.
 */

const root = path.join(import.meta.dirname, '..');
const folder = path.resolve(root, settings.shape.PLINTH_DASHBOARD_DIR.parse(process.env['PLINTH_DASHBOARD_DIR']));

await buildWeb(root, folder, { quality: 11 });
await stop();
