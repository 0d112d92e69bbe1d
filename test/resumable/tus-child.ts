import { startTusApp } from './tus-app.ts';

/** One API process: it reports its address, and each finished upload. */
const options = JSON.parse(process.argv[2] ?? '{}') as Parameters<typeof startTusApp>[0];
const app = await startTusApp({ ...options, onFinished: (finished) => process.send?.({ finished }) });
process.send?.({ url: app.url });
process.on('disconnect', () => process.exit());
