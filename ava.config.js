export default {
  extensions: ['ts'],
  // `npm test` of the whole suite or of folders runs groups of these files (scripts/test-groups.ts).
  files: [process.env.PLINTH_TEST_FILES ?? 'test/**/*.test.ts'],
  require: ['./test/support/cheap-passwords.ts'],
  nodeArguments: ['--no-node-snapshot'],
  workerThreads: false,
  // Each file holds its own database, Redis keys and sandboxed processes: two cores serve three files well.
  concurrency: 3,
  // Longer than the longest t.timeout(): ava forgets a limit that ends within a test's own longer one, and a run that
  // hangs would hang for ever.
  timeout: '330s',
};
