export default {
  extensions: ['ts'],
  files: ['test/**/*.test.ts'],
  nodeArguments: ['--no-node-snapshot'],
  workerThreads: false,
  // Each file holds its own database, Redis keys and sandboxed processes: two cores serve three files well.
  concurrency: 3,
  // At least as long as the longest t.timeout(): ava forgets a limit that ends within a test's own longer one, and the
  // run would hang with the test.
  timeout: '300s',
};
