// How many times as long as on an idle machine work takes now, as `npm test` measured it.
const slowness = Number(process.env.PLINTH_TEST_SLOWNESS ?? 1);

export default {
  extensions: ['ts'],
  // `npm test` of the whole suite or of folders runs groups of these files (scripts/test-groups.ts).
  files: [process.env.PLINTH_TEST_FILES ?? 'test/**/*.test.ts'],
  require: ['./test/support/cheap-passwords.ts'],
  nodeArguments: ['--no-node-snapshot'],
  workerThreads: false,
  concurrency: Number(process.env.PLINTH_TEST_CONCURRENCY ?? 1),
  // Longer than the longest t.timeout(): ava forgets a limit that ends within a test's own longer one, and a run that
  // hangs would hang for ever.
  timeout: `${Math.round(330 * slowness)}s`,
};
